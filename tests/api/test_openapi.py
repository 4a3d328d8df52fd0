from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.renderers import OpenApiYamlRenderer
from openapi_spec_validator import OpenAPIV31SpecValidator

from registry import openapi

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def test_openapi__committed_document__is_what_the_code_says() -> None:
    renderer: Any = OpenApiYamlRenderer()
    generated = renderer.render(openapi.document(), renderer_context={}).decode()

    assert COMMITTED.read_text(encoding="utf-8") == generated, (
        "docs/openapi.yaml is not what the code says: run `make openapi` and look at the difference"
    )


def test_openapi__generated_document__is_valid_3_1() -> None:
    document = openapi.document()

    assert document["openapi"].startswith("3.1")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_openapi__every_reference__leads_somewhere() -> None:
    document = openapi.document()

    for name in re.findall(r"'#/components/schemas/(\w+)'", str(document)):
        assert name in document["components"]["schemas"]


def test_openapi__every_operation__needs_a_key_and_has_a_name_of_its_own() -> None:
    operations = [
        operation
        for methods in openapi.document()["paths"].values()
        for operation in methods.values()
    ]

    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 30
    assert all(operation["security"] == [{"apiKey": []}] for operation in operations)


def test_schema__asked_without_a_key__is_served(client: Client) -> None:
    response = client.get("/api/v1/schema")

    assert response.status_code == 200
    assert response.json()["openapi"].startswith("3.1")


def test_docs__asked_without_a_key__load_nothing_from_elsewhere(client: Client) -> None:
    response = client.get("/api/v1/docs")

    page = response.content.decode()
    assert response.status_code == 200
    assert "/api/v1/schema" in page
    sources = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert sources
    assert all(source.startswith(("/", "data:")) for source in sources)


@pytest.mark.parametrize("part", ["swagger-ui-bundle.js", "swagger-ui.css"])
def test_docs__their_own_files__are_served_by_this_site(client: Client, part: str) -> None:
    page = client.get("/api/v1/docs").content.decode()
    address = next(
        found for found in re.findall(r"""(?:src|href)=["']([^"']+)["']""", page) if part in found
    )

    response = client.get(address)

    assert response.status_code == 200
    assert response.getvalue()
