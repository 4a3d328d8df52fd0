"""A trivial view beside the registry's own: same key, same body parsed, same bytes answered."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import path
from rest_framework.request import Request

from registry.api import View
from registry.urls import urlpatterns as own

_ADDRESS = "api/v1/agents/<str:slug>"


class Reference(View):
    scopes = {"POST": "runtime", "PUT": "runtime"}
    answer: ClassVar[bytes] = b"{}"

    def put(self, request: Request, **_: Any) -> HttpResponse:
        Reference.answer = request.body
        return HttpResponse(status=204)

    def post(self, request: Request, **_: Any) -> HttpResponse:
        self.body()
        return HttpResponse(Reference.answer, content_type="application/json")


urlpatterns = [path(f"{_ADDRESS}/reference", Reference.as_view()), *own]
