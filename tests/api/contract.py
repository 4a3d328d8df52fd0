"""An API client that holds every answer to the OpenAPI document, in both directions.

The document must know the operation and the status, and the answer must have exactly the members
that it names: one that is missing and one that is not documented both fail the test.
"""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from typing import Any

from django.urls import Resolver404
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from rest_framework.test import APIClient

from registry import openapi
from registry.api import PROBLEM

_CONVERTER = re.compile(r"<\w+:(\w+)>")
# Any address may answer so; operations do not repeat it.
_EVERYWHERE = {405, 411, 500}


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document = copy.deepcopy(openapi.document())
    _close(document)
    return document


def _close(node: Any) -> None:
    """Let no object have members beyond those named, unless it says that it may."""
    if isinstance(node, dict):
        if node.get("type") == "object" and "properties" in node:
            node.setdefault("additionalProperties", False)
        for member in node.values():
            _close(member)
    elif isinstance(node, list):
        for member in node:
            _close(member)


def check(method: str, response: Any) -> None:
    """Fail where the answer is not one that the document promises."""
    try:
        route = response.resolver_match.route
    except Resolver404:
        assert response.status_code == 404
        return
    path = "/" + _CONVERTER.sub(r"{\1}", route)
    document = _document()
    operation = document["paths"].get(path, {}).get(method.lower())
    if operation is None:
        assert response.status_code in {401, 405}, f"{method} {path} is not documented"
        return
    answers = operation["responses"]
    status = response.status_code
    assert str(status) in answers or status in _EVERYWHERE, f"{method} {path}: {status} unknown"
    if status >= 400:
        assert response["Content-Type"] == PROBLEM
        schema = {"$ref": "#/components/schemas/Problem"}
    elif "content" not in answers[str(status)]:
        assert response.content == b""
        return
    else:
        assert response["Content-Type"] == "application/json"
        schema = answers[str(status)]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({"allOf": [schema], "components": document["components"]})
    error = best_match(validator.iter_errors(response.json()))
    assert error is None, f"{method} {path} {status}: {error}"


class CheckedClient(APIClient):
    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        if request["PATH_INFO"].startswith("/api/v1/") and request["REQUEST_METHOD"] != "HEAD":
            check(request["REQUEST_METHOD"], response)
        return response
