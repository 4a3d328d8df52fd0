"""All configuration, in one place; this module alone reads the environment.

With nothing set, everything is embedded in the data folder: PostgreSQL and Valkey on sockets,
the bundled embedding model. ``DATABASE_URL``, ``REDIS_URL``, ``BROKER_URL`` and
``EMBEDDING_MODEL`` point elsewhere. Importing settings starts nothing and writes nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import django_stubs_ext
from django.core.exceptions import ImproperlyConfigured
from kombu import Queue

from registry.embedded.instance import Instance, default_data_dir

django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent


def _text(name: str, default: str = "") -> str:
    # Container tools pass what is not set on as blank.
    return os.environ.get(name, "").strip() or default


def _flag(name: str, *, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value in {"", "1", "true", "yes", "on", "0", "false", "no", "off"}:
        return default if value == "" else value in {"1", "true", "yes", "on"}
    raise ImproperlyConfigured(f"{name} is {value!r}; allowed are true and false.")


def _number(name: str, default: int, *, least: int = 0) -> int:
    value = os.environ.get(name, "").strip() or str(default)
    if not value.isdecimal() or int(value) < least:
        raise ImproperlyConfigured(f"{name} is {value!r}; allowed are whole numbers from {least}.")
    return int(value)


def _choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = _text(name, default).lower()
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; allowed are {' and '.join(allowed)}.")
    return value


def _words(name: str, default: str) -> list[str]:
    return [word.strip() for word in _text(name, default).split(",") if word.strip()]


def _database(variable: str) -> dict[str, Any]:
    try:
        parts = urlsplit(_text(variable))
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured(
            f"{variable} cannot be read: write it as postgresql://user:password@host:5432/name, "
            "with special characters of the password as %XX."
        ) from None
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"{variable} starts with {parts.scheme!r}; allowed is postgresql://…"
        )
    options = dict(parse_qsl(parts.query))
    return {
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or options.pop("host", "")),
        "PORT": str(port or ""),
        "OPTIONS": options,
    }


# -- where this instance is ------------------------------------------------------------------

DATA_DIR = Path(_text("DATA_DIR") or default_data_dir(BASE_DIR))
INSTANCE = Instance(DATA_DIR)
# "owner" for migrations: the role that serves owns no table and cannot TRUNCATE.
DATABASE_ROLE = _text("DATABASE_ROLE", "app")
DATABASE_IS_EMBEDDED = not _text("DATABASE_URL")
# The variable that the connection below is made from.
DATABASE_VARIABLE = (
    "MIGRATION_DATABASE_URL"
    if DATABASE_ROLE == "owner" and _text("MIGRATION_DATABASE_URL") and not DATABASE_IS_EMBEDDED
    else "DATABASE_URL"
)
# Named by the migrations' grants; the role itself is made by whoever sets the server up.
DATABASE_APP_ROLE = _text("DATABASE_APP_ROLE", "registry_app")

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **(
            INSTANCE.database_settings("owner" if DATABASE_ROLE == "owner" else "app")
            if DATABASE_IS_EMBEDDED
            else _database(DATABASE_VARIABLE)
        ),
        "CONN_MAX_AGE": _number("DATABASE_CONN_MAX_AGE", 600),
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": False,
    }
}
if _text("DATABASE_NAME"):
    DATABASES["default"]["NAME"] = _text("DATABASE_NAME")
DATABASES["default"].setdefault("OPTIONS", {}).update(
    {
        "connect_timeout": _number("DATABASE_CONNECT_TIMEOUT", 5, least=1),
        "application_name": "agent-registry",
        # A lock held too long is an error with a name, not a request that hangs.
        "options": f"-c lock_timeout={_number('DATABASE_LOCK_TIMEOUT_MS', 15000)}",
    }
)

REDIS_URL = _text("REDIS_URL") or INSTANCE.redis_url
# Celery has its own name for a socket.
BROKER_URL = (
    _text("BROKER_URL")
    or _text("REDIS_URL").replace("unix://", "redis+socket://", 1)
    or INSTANCE.broker_url
)
REDIS_IS_EMBEDDED = not _text("REDIS_URL")

# -- secrets and hosts -----------------------------------------------------------------------

DEBUG = _flag("DEBUG", default=False)
SECRET_KEY = _text("SECRET_KEY") or (
    INSTANCE.secret_key_path.read_text().strip() if INSTANCE.secret_key_path.exists() else ""
)
SECRET_KEY_IS_MISSING = not SECRET_KEY
if SECRET_KEY_IS_MISSING:
    # Commands run without one, the web server does not; `up` writes the file first.
    SECRET_KEY = "set SECRET_KEY, or start with `manage.py up`"  # noqa: S105
# Health checks come from the machine itself, whatever its name is elsewhere.
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *_words("ALLOWED_HOSTS", "")]
CSRF_TRUSTED_ORIGINS = _words("CSRF_TRUSTED_ORIGINS", "")
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if _flag("BEHIND_TLS_PROXY", default=False) else None
)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _flag("BEHIND_TLS_PROXY", default=False)
SESSION_COOKIE_HTTPONLY = True

# -- Django ----------------------------------------------------------------------------------

INSTALLED_APPS = [
    "registry.apps.RegistryAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "pgtrigger",
    "registry.apps.RegistryConfig",
    "retrieval.apps.RetrievalConfig",
    "agents.apps.AgentsConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "registry.urls"
WSGI_APPLICATION = "registry.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
FORMAT_MODULE_PATH = ["registry.formats"]

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
# Static files are served from the packages themselves: no collect step on one machine.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL},
}

# -- uploads, extraction, models ---------------------------------------------------------------

MAX_UPLOAD_BYTES = _number("MAX_UPLOAD_MB", 50, least=1) * 1024 * 1024
# One request with many files.
MAX_INGEST_BYTES = _number("MAX_INGEST_MB", 500, least=1) * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # the API's parsers limit bodies and say so by name
# An admin uploads a folder at once, and saves a draft with all its rows.
DATA_UPLOAD_MAX_NUMBER_FILES = 1000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000
FILE_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024
MAX_JSON_BYTES = _number("MAX_JSON_MB", 55, least=1) * 1024 * 1024
MAX_CONTEXT_BYTES = 64 * 1024

# "auto": pages that are pictures are read where tesseract's language data are installed.
OCR = _choice("OCR", "auto", ("auto", "off"))
OCR_LANGUAGES = _text("OCR_LANGUAGES", "eng")
# Blank: where distributions put them.
OCR_DATA_DIR = _text("OCR_DATA_DIR")

# New questions of one API key; each leaves a row of 2.2 kB for ever. 0: no limit.
NEW_QUESTIONS_PER_HOUR = _number("NEW_QUESTIONS_PER_HOUR", 10_000)
NEW_QUESTIONS_PER_DAY = _number("NEW_QUESTIONS_PER_DAY", 50_000)
# Copies of questions' vectors: how many a process holds, how long Redis does (0: not at all).
QUESTION_CACHE_SIZE = _number("QUESTION_CACHE_SIZE", 5000)
QUESTION_CACHE_SECONDS = _number("QUESTION_CACHE_SECONDS", 86_400)
# Processor cores that one question takes, of those that are there.
QUESTION_THREADS = min(_number("QUESTION_THREADS", 2, least=1), os.cpu_count() or 1)
# `retrieve` asks the knowledge bases that apply at once: how many by one process, and how long.
RETRIEVE_PARALLELISM = _number("RETRIEVE_PARALLELISM", 4, least=1)
RETRIEVE_SECONDS = _number("RETRIEVE_SECONDS", 10, least=1)

EMBEDDING_MODEL = _text("EMBEDDING_MODEL", "all-MiniLM-L6-v2")
RERANK_MODEL = _text("RERANK_MODEL")
# The model that answers in the test box: blank, the small local one; "none", no model.
ANSWER_BASE_URL = _text("ANSWER_BASE_URL")
ANSWER_MODEL = _text("ANSWER_MODEL")
ANSWER_API_KEY = _text("ANSWER_API_KEY")
if ANSWER_BASE_URL and not ANSWER_MODEL:
    raise ImproperlyConfigured("ANSWER_BASE_URL needs ANSWER_MODEL: the model's name there.")
if not ANSWER_BASE_URL and (ANSWER_API_KEY or ANSWER_MODEL not in {"", "none"}):
    # Passages must not go to somebody's default endpoint.
    raise ImproperlyConfigured(
        "ANSWER_MODEL and ANSWER_API_KEY need ANSWER_BASE_URL, for example "
        "https://api.example.com/v1; without one, the only value of ANSWER_MODEL is “none”."
    )
ANSWER_TIMEOUT_SECONDS = _number("ANSWER_TIMEOUT_SECONDS", 30, least=1)
ANSWER_PARALLELISM = _number("ANSWER_PARALLELISM", 1, least=1)
# How the process that talks to the endpoint gets there: what the usual clients read.
ANSWER_ENVIRONMENT = {
    name: value
    for name, value in {
        "HTTPS_PROXY": _text("HTTPS_PROXY"),
        "NO_PROXY": _text("NO_PROXY"),
        "SSL_CERT_FILE": _text("SSL_CERT_FILE"),
    }.items()
    if value
}
MODELS_DIR = Path(_text("MODELS_DIR") or INSTANCE.models_dir)
# Where the processes of a machine see how many answers are being written.
ANSWER_LOCKS_DIR = MODELS_DIR

# -- host copies of snapshots, for search ------------------------------------------------------

HOST_COPIES_DIR = Path(_text("HOST_COPIES_DIR") or INSTANCE.copies_dir)
# 0: none; every search goes to PostgreSQL.
HOST_COPIES_DISK_BYTES = _number("HOST_COPIES_DISK_MB", 10_240) * 1024 * 1024
# Mapped by one process; the pages are shared by all.
HOST_COPIES_MEMORY_BYTES = _number("HOST_COPIES_MEMORY_MB", 4096) * 1024 * 1024
HOST_COPIES_LEAST_CHUNKS = _number("HOST_COPIES_LEAST_CHUNKS", 1000, least=1)

# -- Celery ------------------------------------------------------------------------------------

CELERY_BROKER_URL = BROKER_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "default"
# What is soon done has a queue of its own, which a worker reads first and may read alone.
CELERY_TASK_QUEUES = [Queue("edits"), Queue("default")]
CELERY_TASK_ROUTES = {
    "retrieval.start_build": {"queue": "edits"},
    "retrieval.look_for_due_builds": {"queue": "edits"},
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker waits for its broker as long as it takes
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # A broker that hangs must not block the upload that only wants to leave a hint.
    "socket_timeout": 2,
    "socket_connect_timeout": 2,
    # Messages are hints, so none is kept in Redis until it is done with: a worker that wants to
    # settle one after Redis went away ends (seen: AttributeError in the transport).
    "ack_emulation": False,
    # Queues in the order of above, not in turns.
    "queue_order_strategy": "priority",
}
BUILD_LEASE_SECONDS = _number("BUILD_LEASE_SECONDS", 120, least=5)
BUILD_MAX_ATTEMPTS = 3
BUILD_PARALLELISM = _number("BUILD_PARALLELISM", os.cpu_count() or 1, least=1)
REAPER_INTERVAL_SECONDS = _number("REAPER_INTERVAL_SECONDS", 5, least=1)
PRUNE_INTERVAL_SECONDS = _number("PRUNE_INTERVAL_SECONDS", 3600, least=1)
# What is kept although no published version pins it: so many ready snapshots besides the current
# one, and everything younger than so many days.
SNAPSHOTS_KEPT_LAST = _number("SNAPSHOTS_KEPT_LAST", 5)
SNAPSHOTS_KEPT_DAYS = _number("SNAPSHOTS_KEPT_DAYS", 30)
# The vectors of questions that no published version was asked.
QUESTIONS_KEPT_DAYS = _number("QUESTIONS_KEPT_DAYS", 30)
CELERY_BEAT_SCHEDULE = {
    "look for due builds": {
        "task": "retrieval.look_for_due_builds",
        "schedule": REAPER_INTERVAL_SECONDS,
        "options": {"expires": 30},
    },
    "look for due evaluations": {
        "task": "retrieval.look_for_due_evaluations",
        "schedule": REAPER_INTERVAL_SECONDS,
        "options": {"expires": 30, "queue": "default"},
    },
    "prune": {
        "task": "retrieval.prune",
        "schedule": PRUNE_INTERVAL_SECONDS,
        "options": {"expires": 600, "queue": "default"},
    },
    "forget old idempotency records": {
        "task": "registry.forget_old_idempotency_records",
        "schedule": 3600,
    },
}

# -- API ---------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["registry.wire.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["registry.wire.ScopePermission"],
    "DEFAULT_PARSER_CLASSES": ["registry.wire.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["registry.wire.UTF8JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "registry.api.problem_response",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Agent registry",
    "DESCRIPTION": "Versioned agent configuration and reproducible retrieval.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_PERMISSIONS": [],
    "SERVE_AUTHENTICATION": [],
    # The docs page brings its own scripts: it works without the internet.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "POSTPROCESSING_HOOKS": ["registry.openapi.finish"],
}

# -- logs --------------------------------------------------------------------------------------

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": _text("LOG_LEVEL", "INFO")},
    "loggers": {"django.server": {"level": "WARNING"}},
}
