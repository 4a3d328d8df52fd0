"""The lists of the admin take as many queries for many rows as for few."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.aliases import move_alias
from agents.answers import resolve
from agents.versions import runnable
from registry.access import create_api_key
from retrieval.knowledge_bases import create_knowledge_base
from tests import builders
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db

LISTED = sorted(
    model._meta.label
    for model in admin.site._registry
    if model._meta.app_label in {"agents", "retrieval", "registry", "auth"}
)


def _make_some(name: str) -> None:
    """Make rows of everything that the admin lists but embedding models, of which there is one."""
    base = builders.base_with(name)
    create_knowledge_base(actor=builders.ACTOR, values={"name": f"Empty {name}"})
    agent, version = builders.published(base, slug=name.lower())
    builders.edit(agent, prompt="Second.")
    builders.publish(agent)
    builders.add_text(base, "more.md", "# More\n\nNot indexed yet.")
    for alias in ("production", "staging"):
        move_alias(actor=builders.ACTOR, agent=agent, name=alias, number=1)
    create_api_key(actor=builders.ACTOR, name=name, scope="runtime", agents=[agent.slug])
    resolve(version=runnable(agent, version), context={}, access=builders.ACCESS)
    User.objects.create_user(name).groups.add(Group.objects.create(name=name))


def _queries(browser: Client, label: str) -> tuple[int, int]:
    """Return how many queries the list takes, and how many rows it shows."""
    address = reverse(f"admin:{label.lower().replace('.', '_')}_changelist")
    with CaptureQueriesContext(connection) as queries:
        page: Any = browser.get(address)
    assert page.status_code == 200
    return len(queries), len(page.context["cl"].result_list)


def test_lists__with_more_rows__take_no_more_queries(browser: Client) -> None:
    _make_some("One")
    assert kept_traces().count() == 1
    few = {label: _queries(browser, label) for label in LISTED}

    for name in ("Two", "Three", "Four"):
        _make_some(name)
    assert kept_traces().count() == 4
    many = {label: _queries(browser, label) for label in LISTED}

    assert "agents.Agent" in LISTED
    assert "retrieval.Document" in LISTED
    for label in LISTED:
        if label != "retrieval.EmbeddingModel":
            assert many[label][1] >= few[label][1] + 3, label
        assert many[label][0] <= few[label][0], label


@pytest.mark.parametrize("label", LISTED)
def test_list__an_address_with_nul__is_refused(browser: Client, label: str) -> None:
    address = reverse(f"admin:{label.lower().replace('.', '_')}_changelist")

    for member in ("q", "state", "scope__exact", "object_id__exact", "kind__exact", "o"):
        assert browser.get(f"{address}?{member}=a%00b").status_code == 400, member


@pytest.mark.parametrize(
    ("address", "lookup"),
    [
        ("/admin/registry/auditevent/", "at__year=-1"),
        ("/admin/registry/auditevent/", "at__year=99999999999999999999"),
        ("/admin/retrieval/document/", "pk__regex=("),
        ("/admin/retrieval/document/", "knowledge_base_id__gt=5"),
        ("/admin/registry/apikey/", "digest__startswith=sha256"),
        ("/admin/retrieval/document/", "metadata__contains=x"),
        ("/admin/auth/user/", "date_joined__year=-1"),
    ],
)
def test_list__by_a_lookup_that_no_filter_offers__is_refused(
    browser: Client, address: str, lookup: str
) -> None:
    assert browser.get(f"{address}?{lookup}").status_code == 400


def test_list__by_each_filter_that_it_offers__is_shown(browser: Client) -> None:
    _make_some("One")

    for label in LISTED:
        address = reverse(f"admin:{label.lower().replace('.', '_')}_changelist")
        page: Any = browser.get(address)
        for filter_spec in page.context["cl"].filter_specs:
            for choice in filter_spec.choices(page.context["cl"]):
                shown = browser.get(address + choice["query_string"])
                assert shown.status_code == 200, (label, choice)
