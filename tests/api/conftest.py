"""Every answer in these tests is checked against the OpenAPI document."""

from __future__ import annotations

import pytest

from tests.api.contract import CheckedClient


@pytest.fixture
def client_class() -> type[CheckedClient]:
    return CheckedClient
