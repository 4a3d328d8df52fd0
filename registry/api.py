"""The base of the API's views, and how errors read (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.db import InterfaceError, OperationalError
from django.http import Http404, QueryDict
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from registry import requests
from registry.access import Access, Scope
from registry.canonical import digest_bytes, digest_json
from registry.errors import (
    Damaged,
    FieldError,
    LengthRequired,
    Malformed,
    NotFound,
    RegistryError,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
    problem,
)
from registry.fields import dump_received
from registry.idempotency import Answer, answer_once
from registry.strict_json import check_text
from registry.wire import OneForm

logger = logging.getLogger("registry.api")

PROBLEM = "application/problem+json"


class _FrameworkError(RegistryError):
    """An error that DRF found before a use case was reached: its status is kept."""

    title = "Request refused"

    @classmethod
    def of(cls, error: drf.APIException) -> RegistryError:
        kind = type(error.__class__.__name__, (cls,), {"status": error.status_code})
        made = kind(_first_text(error.detail), code=f"request.{error.default_code}")
        return cast("RegistryError", made)


def _from_framework(error: Exception) -> RegistryError | None:
    """Return the registry's error for one that Django or DRF raised, if it is anticipated."""
    if isinstance(error, Http404 | drf.NotFound):
        return NotFound("There is nothing at this address.")
    if isinstance(error, drf.NotAuthenticated | drf.AuthenticationFailed):
        return Unauthenticated(str(error.detail))
    if isinstance(error, RequestDataTooBig):
        return TooLarge(str(error))
    if isinstance(error, SuspiciousOperation):
        return Malformed("The request could not be read.")
    if isinstance(error, OperationalError | InterfaceError):
        logger.error("database.unavailable %s", error)
        return Unavailable(
            "The database did not answer in time; try again.", code="database.unavailable"
        )
    if isinstance(error, drf.APIException):
        return _FrameworkError.of(error)
    return None


def _first_text(detail: Any) -> str:
    if isinstance(detail, Mapping):
        return _first_text(next(iter(detail.values()), ""))
    if isinstance(detail, Sequence) and not isinstance(detail, str):
        return _first_text(detail[0]) if detail else ""
    return str(detail)


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn an error into ``application/problem+json``; what nobody anticipated is a bug.

    A bug is logged with its traceback and answered as a problem document too, so that a client
    never has to parse a page.
    """
    known = error if isinstance(error, RegistryError) else _from_framework(error)
    if known is None:
        logger.error("request.failed", exc_info=error)
        known = RegistryError(
            "Something went wrong on our side; the log has the details.", code="internal_error"
        )
    if isinstance(known, Damaged):
        logger.error("rows.changed %s", known.detail)
    headers = {}
    if known.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="agent-registry"'
    if isinstance(known, TooMany):
        headers["Retry-After"] = str(known.retry_after)
    return Response(problem(known), status=known.status, headers=headers, content_type=PROBLEM)


class View(APIView):
    """A view of the API. Subclasses name ``scopes`` and make one call per method."""

    scopes: ClassVar[Mapping[str, Scope]] = {}
    content_negotiation_class = OneForm
    metadata_class = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Let a caller in; a body of unknown length, which would read as empty, is refused."""
        super().initial(request, *args, **kwargs)
        meta = request.META
        if meta.get("HTTP_TRANSFER_ENCODING") and not meta.get("CONTENT_LENGTH"):
            raise LengthRequired("The body must come with its Content-Length, not in chunks.")

    @property
    def access(self) -> Access:
        """What the caller may do."""
        return cast("Access", self.request.auth)

    def body(self, *allowed: str) -> dict[str, Any]:
        """Return the JSON object that was sent; an absent body is an empty one.

        Raises Malformed where it is not an object and, where ``allowed`` names members, Invalid
        for any other.
        """
        value = self.request.data
        if not isinstance(value, dict):
            raise not_an_object(value)
        if allowed:
            requests.refuse_unknown(value, allowed)
        return value

    def no_body(self) -> None:
        """Raise Invalid for members of a body that nobody reads."""
        requests.refuse_unknown(self.body(), ())

    def query(self, *allowed: str) -> dict[str, str]:
        """Return the query's members. Raises Invalid for one that nobody reads."""
        members = {name: str(value) for name, value in self.request.query_params.items()}
        requests.refuse_unknown(members, allowed)
        for name, value in members.items():
            check_text(value, field=name)
        return members

    def write(self, work: Callable[[], Answer]) -> Response:
        """Answer a write with the (status, JSON) of ``work``, once per ``Idempotency-Key``."""
        key = self.request.headers.get("Idempotency-Key")
        if key is None or self.access.key_id is None:
            status, body = work()
        else:
            status, body = answer_once(
                api_key=self.access.key_id,
                key=key,
                request_digest=self._request_digest(),
                work=work,
            )
        return Response(body, status=status)

    def _request_digest(self) -> str:
        return digest_json(
            {
                "method": self.request.method,
                "path": self.request.get_full_path(),
                "ifMatch": self.request.headers.get("If-Match"),
                "content": _content_of(self.request.data),
            }
        )


def not_an_object(value: object) -> Malformed:
    """Return the error of a body that is JSON and no object."""
    return Malformed(
        "The body must be a JSON object.",
        code="json.not_an_object",
        errors=[
            FieldError(
                field="(body)", value=value, message="must be a JSON object", allowed="object"
            )
        ],
    )


def _content_of(data: Any) -> Any:
    """Return what came in as JSON that differs where the content does, files as digests."""
    if not isinstance(data, QueryDict):
        return dump_received(data)
    return [[name, _part(value)] for name, values in sorted(data.lists()) for value in values]


def _part(value: object) -> Any:
    if not isinstance(value, UploadedFile):
        return str(value)
    value.seek(0)
    digest = digest_bytes(value.read())
    value.seek(0)
    return {"name": value.name, "content": digest}
