"""Answers to requests that no view of the API took: problem documents, and pages in the admin."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views import defaults

from registry.api import PROBLEM
from registry.errors import Malformed, NotFound, RegistryError, problem


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django itself could not read."""
    if _for_a_person(request):
        return defaults.bad_request(request, exception)
    return _problem(Malformed("The request could not be read."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an address that does not exist."""
    if _for_a_person(request):
        return defaults.page_not_found(request, exception)
    return _problem(NotFound("There is nothing at this address."))


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer where a bug stopped a view; the log has its traceback."""
    if _for_a_person(request):
        return defaults.server_error(request)
    return _problem(
        RegistryError(
            "Something went wrong on our side; the log has the details.", code="internal_error"
        )
    )


def _for_a_person(request: HttpRequest) -> bool:
    return request.path.startswith(reverse("admin:index"))


def _problem(error: RegistryError) -> JsonResponse:
    return JsonResponse(
        problem(error),
        status=error.status,
        content_type=PROBLEM,
        json_dumps_params={"ensure_ascii": False},
    )
