"""Every address of the service."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from drf_spectacular.views import SpectacularSwaggerView

import agents.conversation_schemas
import agents.coverage_schemas
import agents.schemas
import agents.urls
import retrieval.document_schemas
import retrieval.evaluation_schemas
import retrieval.schemas
import retrieval.urls
from registry import health, openapi


def schema(request: HttpRequest) -> JsonResponse:
    """Return the OpenAPI document; it needs no key."""
    return JsonResponse(openapi.document(), json_dumps_params={"ensure_ascii": False})


api_v1 = [
    path("schema", schema, name="schema"),
    path(
        "docs",
        SpectacularSwaggerView.as_view(url_name="schema", title="Agent registry"),
        name="docs",
    ),
    *retrieval.urls.urlpatterns,
    *agents.urls.urlpatterns,
]

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("api/v1/", include(api_v1)),
    path("admin/", admin.site.urls),
]

handler400 = "registry.fallbacks.bad_request"
handler404 = "registry.fallbacks.not_found"
handler500 = "registry.fallbacks.server_error"
