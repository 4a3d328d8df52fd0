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
