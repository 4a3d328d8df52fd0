"""One assertion for every refusal: the whole problem document, and nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps

from retrieval.traces import writer

ANYTHING: Any = object()


def assert_problem(
    response: Any,
    status: int,
    code: str,
    *,
    field: str | None = None,
    value: Any = ANYTHING,
    allowed: Any = ANYTHING,
) -> dict[str, Any]:
    """Assert an ``application/problem+json`` and, with ``field``, its first field error."""
    assert response["Content-Type"] == "application/problem+json", response.content
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["code"]) == (status, code), body
    assert body["status"] == status
    assert body["type"].endswith(code)
    assert body["title"]
    assert body["detail"]
    if field is not None:
        error = body["errors"][0]
        assert error["field"] == field, body
        assert error["message"]
        if value is not ANYTHING:
            assert error["value"] == value, body
        if allowed is ANYTHING:
            assert error["allowed"] is not None, body
        else:
            assert error["allowed"] == allowed, body
    return body


@contextmanager
def nothing_written() -> Iterator[None]:
    """Assert that no table of the registry has another number of rows afterwards.

    Traces that were recorded before are written before, those of within are waited for.
    """
    before = _counts()
    yield
    assert _counts() == before


def _counts() -> dict[str, int]:
    assert writer.flush(seconds=60)
    return {
        model._meta.label: model._default_manager.count()
        for label in ("registry", "retrieval", "agents")
        for model in apps.get_app_config(label).get_models()
    }
