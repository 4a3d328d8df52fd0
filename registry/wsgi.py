import os

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from registry.lookups import keep_fresh

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "registry.settings")

if settings.SECRET_KEY_IS_MISSING:
    # Sessions could be forged with a key that everybody knows.
    raise ImproperlyConfigured("SECRET_KEY is not set: give every web server the same one.")
application = get_wsgi_application()
keep_fresh()

from registry import warm_start  # noqa: E402 - the models exist only from here on

warm_start.begin()
