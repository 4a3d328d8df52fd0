"""Every answer in these tests is checked against the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from registry.access import create_api_key
from tests import builders
from tests.api.contract import CheckedClient


@pytest.fixture
def client_for(db: None) -> Callable[..., CheckedClient]:
    """Return a function that makes an API client with a key of a scope."""

    def make(scope: str = "admin", **limits: Any) -> CheckedClient:
        made.append(f"{scope} {len(made)}")
        key = create_api_key(actor=builders.ACTOR, name=made[-1], scope=scope, **limits)
        return CheckedClient(HTTP_AUTHORIZATION=f"Bearer {key}")

    made: list[str] = []
    return make
