"""The base of the HTTP API: who calls, what they send, and how errors read (RFC 9457)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.db import InterfaceError, OperationalError
from django.http import Http404, QueryDict
from rest_framework import exceptions as drf
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from registry import requests
from registry.access import Access, Scope, authenticate
from registry.canonical import digest_bytes, digest_json
from registry.errors import (
    Malformed,
    NotFound,
    RegistryError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    problem,
)
from registry.fields import dump_received
from registry.idempotency import Answer, answer_once
from registry.strict_json import check_text, loads

logger = logging.getLogger("registry.api")

PROBLEM = "application/problem+json"


class ApiKeyAuthentication(BaseAuthentication):
    """``Authorization: Bearer reg_…`` → ``request.auth`` is an ``Access``."""

    def authenticate(self, request: Request) -> tuple[None, Access] | None:
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        kind, _, key = header.partition(" ")
        if kind.lower() != "bearer" or not key.strip():
            raise Unauthenticated(
                "The Authorization header must be “Bearer <API key>”.",
                code="authentication.malformed",
            )
        return None, authenticate(key.strip())

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="agent-registry"'


class ScopePermission(BasePermission):
    """Each view names the scope of each method: ``scopes = {"GET": "editor"}``.

    A method without one does not exist for anybody.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        access = request.auth
        if not isinstance(access, Access):
            raise Unauthenticated("This needs an API key: Authorization: Bearer <API key>.")
        scopes: Mapping[str, Scope] = getattr(view, "scopes", {})
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method not in scopes:
            raise drf.MethodNotAllowed(method)
        access.require(scopes[method])
        return True


class OneForm(DefaultContentNegotiation):
    """Answers have one form, whatever ``Accept`` or ``?format=`` say."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, str(first.media_type)


class StrictJSONParser(BaseParser):
    """JSON by ``registry.strict_json``, up to ``MAX_JSON_BYTES``."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        content = stream.read(settings.MAX_JSON_BYTES + 1)
        if len(content) > settings.MAX_JSON_BYTES:
            raise TooLarge(
                f"The body is over {settings.MAX_JSON_BYTES // 1024**2} MB.",
                limit=settings.MAX_JSON_BYTES,
            )
        return loads(content)


class UTF8JSONRenderer(BaseRenderer):
    """Plain JSON, key order kept, no escapes where UTF-8 says it."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if data is None:
            return b""
        return json.dumps(
            data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str
        ).encode("utf-8")


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
    headers = {}
    if known.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="agent-registry"'
    return Response(problem(known), status=known.status, headers=headers, content_type=PROBLEM)


class View(APIView):
    """A view of the API. Subclasses name ``scopes`` and make one call per method."""

    scopes: ClassVar[Mapping[str, Scope]] = {}
    content_negotiation_class = OneForm
    metadata_class = None

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
            raise Malformed("The body must be a JSON object.", code="json.not_an_object")
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
