from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from registry.access import authenticate
from registry.errors import Unauthenticated
from registry.models import ApiKey, AuditEvent
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of

pytestmark = pytest.mark.django_db

ADD = "/admin/registry/apikey/add/"
LOG = "/admin/registry/auditevent/"


def test_key__created_for_all__is_shown_once_and_works(browser: Client, audited: Audited) -> None:
    with audited("api_key.created"):
        page = browser.post(ADD, {"name": "shop", "scope": "runtime", "all_agents": "on"})

    found = re.search(r"reg_[A-Za-z0-9_-]{43}", text_of(page))
    assert found is not None
    access = authenticate(found[0])
    assert (access.scope, access.agents) == ("runtime", None)
    assert "no-store" in page.headers["Cache-Control"]
    key = ApiKey.objects.get(name="shop")
    for later in (
        address_of(key, "change"),
        "/admin/registry/apikey/",
    ):
        assert found[0] not in text_of(browser.get(later))


def test_key__limited__reaches_only_what_was_chosen(browser: Client, audited: Audited) -> None:
    builders.make_agent("support")
    builders.make_agent("sales")
    base = builders.make_base()

    with audited("api_key.created"):
        page = browser.post(
            ADD,
            {
                "name": "shop",
                "scope": "editor",
                "agents": ["support"],
                "knowledge_bases": [str(base.pk)],
            },
        )

    found = re.search(r"reg_[A-Za-z0-9_-]{43}", text_of(page))
    assert found is not None
    access = authenticate(found[0])
    assert access.agents == frozenset({"support"})
    assert access.knowledge_bases == frozenset({base.pk})
    event = AuditEvent.objects.get(action="api_key.created")
    assert event.after is not None
    assert event.after["agents"] == ["support"]
    assert event.after["knowledgeBases"] == [str(base.pk)]


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"name": "", "scope": "runtime", "all_agents": "on"}, "name"),
        ({"name": "taken", "scope": "runtime", "all_agents": "on"}, "__all__"),
        ({"name": "x" * 201, "scope": "runtime", "all_agents": "on"}, "name"),
        ({"name": "shop", "scope": "root", "all_agents": "on"}, "scope"),
        ({"name": "shop", "scope": "runtime", "agents": ["nobody"]}, "agents"),
        (
            {"name": "shop", "scope": "runtime", "all_agents": "on", "agents": ["support"]},
            "all_agents",
        ),
    ],
)
def test_key__with_a_bad_value__is_not_made(
    browser: Client, audited: Audited, typed: dict[str, object], field: str
) -> None:
    builders.make_agent("support")
    browser.post(ADD, {"name": "taken", "scope": "runtime", "all_agents": "on"})

    with audited(""):
        page = browser.post(ADD, typed)

    assert field in page.context["adminform"].form.errors
    assert ApiKey.objects.count() == 1


def test_key__revoked_after_the_question__lets_nobody_in(browser: Client, audited: Audited) -> None:
    page = browser.post(ADD, {"name": "shop", "scope": "runtime", "all_agents": "on"})
    found = re.search(r"reg_[A-Za-z0-9_-]{43}", text_of(page))
    assert found is not None
    url = address_of(ApiKey.objects.get(), "revoke")
    asked = browser.get(url)

    with audited("api_key.revoked"):
        browser.post(url)

    assert "This cannot be undone." in text_of(asked)
    with pytest.raises(Unauthenticated):
        authenticate(found[0])


def test_audit_log__of_an_object__is_its_history(browser: Client) -> None:
    builders.make_agent("other")
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Hello")

    page = browser.get(address_of(agent, "history"), follow=True)

    actions = [event.action for event in page.context["cl"].result_list]
    assert actions == ["draft.edited", "agent.created"]


def test_audit_log__an_event__shows_before_and_after_and_leads_to_the_object(
    browser: Client,
) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="<b>Hello</b>")
    event = AuditEvent.objects.get(action="draft.edited")

    page = browser.get(address_of(event, "change"))

    assert b"<b>Hello" not in page.content
    assert '"prompt": "<b>Hello</b>"' in text_of(page)
    assert b'href="/admin/agents/agent/support/change/"' in page.content


def test_index__the_newest_changes__are_those_of_the_audit_log(browser: Client) -> None:
    builders.make_agent("support")

    said = text_of(browser.get("/admin/"))

    assert "Latest changes agent.created support, by tests" in said


def test_account__made_changed_and_deleted__is_in_the_log_without_its_password(
    browser: Client, audited: Audited
) -> None:
    secret = "a-long-enough-secret"

    with audited("user.created"):
        browser.post(
            "/admin/auth/user/add/",
            {
                "username": "bob",
                "usable_password": "true",
                "password1": secret,
                "password2": secret,
            },
        )
    bob = User.objects.get(username="bob")
    url = address_of(bob, "change")
    with audited("user.updated"):
        browser.post(url, sent_by(browser.get(url), "username", is_staff="on"))
    with audited("user.updated"):
        browser.post(
            address_of(bob, "password_change"),
            {"usable_password": "true", "password1": secret + "2", "password2": secret + "2"},
        )
    with audited("user.deleted"):
        browser.post(address_of(bob, "delete"), {"post": "yes"})

    changed = AuditEvent.objects.filter(object_type="user").order_by("id")
    assert changed[1].before == {"is_staff": False}
    assert changed[1].after == {"is_staff": True}
    assert not any(secret in str(event.after) for event in changed)
    assert not User.objects.filter(username="bob").exists()


def test_account__whose_owner_changes_the_password__is_in_the_log_without_it(
    browser: Client, person: User, audited: Audited
) -> None:
    old, new = "an-old-enough-secret", "a-long-enough-secret"
    person.set_password(old)
    person.save()
    browser.force_login(person)
    url = reverse("admin:password_change")

    with audited(""):
        browser.post(url, {"old_password": "wrong", "new_password1": new, "new_password2": new})
        browser.post(url, {"old_password": old, "new_password1": new, "new_password2": old})
    with audited("user.updated"):
        done = browser.post(url, {"old_password": old, "new_password1": new, "new_password2": new})

    assert done.status_code == 302
    person.refresh_from_db()
    assert person.check_password(new)
    event = AuditEvent.objects.latest("id")
    assert (event.object_type, event.object_id) == ("user", "ada")
    assert (event.before, event.after) == ({}, {"password": "changed"})
    assert not any(word in str(event.__dict__) for word in (old, new, person.password))
    assert browser.get("/admin/").status_code == 200


def test_account__password_of_another_user_changed__is_in_the_log_as_theirs(
    browser: Client, audited: Audited
) -> None:
    bob = User.objects.create_user("bob", password="an-old-enough-secret")
    new = "a-long-enough-secret"

    with audited("user.updated"):
        browser.post(
            reverse("admin:auth_user_password_change", args=[bob.pk]),
            {"usable_password": "true", "password1": new, "password2": new},
        )

    event = AuditEvent.objects.latest("id")
    assert (event.object_id, event.after) == ("bob", {"password": "changed"})


def test_account__given_and_taken_rights__is_in_the_log_with_both_sides(
    browser: Client, audited: Audited
) -> None:
    bob = User.objects.create_user("bob")
    group = Group.objects.create(name="Editors")
    permission = Permission.objects.get(codename="view_agent")
    url = reverse("admin:auth_user_change", args=[bob.pk])

    with audited("user.updated"):
        values = sent_by(browser.get(url), "username")
        values.update(groups=[str(group.pk)], user_permissions=[str(permission.pk)])
        values.pop("is_active")
        browser.post(url, values)

    event = AuditEvent.objects.latest("id")
    assert event.before == {"is_active": True, "groups": [], "user_permissions": []}
    assert event.after == {
        "is_active": False,
        "groups": ["Editors"],
        "user_permissions": [str(permission)],
    }

    with audited("group.updated"):
        browser.post(
            reverse("admin:auth_group_change", args=[group.pk]),
            {"name": "Editors", "permissions": [str(permission.pk)]},
        )
    with audited("user.updated"):
        browser.post(url, sent_by(browser.get(url), "username", groups=[], is_active="on"))

    event = AuditEvent.objects.latest("id")
    assert (event.before or {})["groups"] == ["Editors"]
    assert (event.after or {})["groups"] == []


def test_group__made__is_in_the_log(browser: Client, audited: Audited) -> None:
    with audited("group.created"):
        browser.post("/admin/auth/group/add/", {"name": "Editors"})

    assert Group.objects.filter(name="Editors").exists()
