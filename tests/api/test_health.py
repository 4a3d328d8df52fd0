from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as configured
from django.db import connection
from django.test import Client

from registry import health
from tests.worker import Worker, broker_url, wait_until


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    health.forget()
    yield
    health.forget()


@pytest.fixture
def nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give Celery a broker's address at which nothing listens."""
    nowhere = f"redis+socket://{configured.DATA_DIR}/no-broker.sock"
    monkeypatch.setattr(current_app.conf, "broker_url", nowhere)


@pytest.fixture
def own_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_app.conf, "broker_url", broker_url())


def test_healthz__database_away__still_answers(client: Client) -> None:
    response = client.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.django_db(transaction=True)
def test_readyz__everything_runs__is_ready(client: Client, worker: Worker) -> None:
    body: dict[str, Any] = {}

    def ready() -> bool:
        health.forget()
        body.update(client.get("/readyz").json())
        return bool(body["status"] == "ready")

    with suppress(AssertionError):
        wait_until(ready)

    assert body["degraded"] == [], body
    assert set(body["parts"]) == {"database", "model", "broker", "workers"}
    assert all(part == {"ok": True, "detail": None} for part in body["parts"].values())


@pytest.mark.django_db
def test_readyz__no_worker__names_the_workers(client: Client, own_broker: None) -> None:
    response = client.get("/readyz")

    assert response.status_code == 200
    assert (response.json()["status"], response.json()["degraded"]) == ("degraded", ["workers"])
    assert response.json()["parts"]["workers"]["detail"]


@pytest.mark.django_db
def test_readyz__no_broker__names_broker_and_workers(client: Client, nobody_there: None) -> None:
    response = client.get("/readyz")

    assert response.status_code == 200
    assert response.json()["degraded"] == ["broker", "workers"]


@pytest.mark.django_db
def test_readyz__model_not_installed__names_it(
    client: Client, own_broker: None, settings: object
) -> None:
    settings.EMBEDDING_MODEL = "not-installed"  # type: ignore[attr-defined]

    response = client.get("/readyz")

    assert response.status_code == 200
    assert "model" in response.json()["degraded"]
    assert "not-installed" in response.json()["parts"]["model"]["detail"]


@pytest.mark.django_db(transaction=True)
def test_readyz__no_database__is_unavailable(
    client: Client, own_broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")

    response = client.get("/readyz")

    monkeypatch.undo()
    connection.close()
    assert response.status_code == 503
    assert response.json()["status"] == "unavailable"
    assert "database" in response.json()["degraded"]
