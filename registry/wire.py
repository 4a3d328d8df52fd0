"""What goes over the wire: whose key came with a request, JSON in, JSON out.

Named in DRF's settings, hence apart from the views: DRF loads these while it loads its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from rest_framework import exceptions as drf
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from registry.access import Access, Scope, authenticate
from registry.errors import TooLarge, Unauthenticated
from registry.strict_json import loads


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

    def has_permission(self, request: Request, view: object) -> bool:
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
