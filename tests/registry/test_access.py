from __future__ import annotations

import uuid

import pytest

from registry import audit
from registry.access import Access, authenticate, create_api_key, revoke_api_key
from registry.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from registry.models import ApiKey, AuditEvent
from tests.builders import ACTOR

pytestmark = pytest.mark.django_db


def test_key__just_made__authenticates_with_its_scope_and_only_its_digest_is_kept() -> None:
    key = create_api_key(actor=ACTOR, name="agent", scope="runtime")

    access = authenticate(key)

    assert access.scope == "runtime"
    assert access.agents is None
    row = ApiKey.objects.get()
    assert key not in {row.digest, row.prefix, row.name}
    assert AuditEvent.objects.get().action == "api_key.created"
    assert key not in str(AuditEvent.objects.get().after)


def test_key__of_another_form__is_refused_without_a_query(
    django_assert_num_queries: object,
) -> None:
    with django_assert_num_queries(0), pytest.raises(Unauthenticated):  # type: ignore[operator]
        authenticate("reg_short")


def test_key__revoked__is_refused() -> None:
    key = create_api_key(actor=ACTOR, name="agent", scope="runtime")
    revoke_api_key(actor=ACTOR, key_id=ApiKey.objects.get().pk)

    with pytest.raises(Unauthenticated):
        authenticate(key)


def test_key__limited_to_agents__sees_only_them_and_the_bases_it_names() -> None:
    base = uuid.uuid4()
    key = create_api_key(
        actor=ACTOR, name="one", scope="editor", agents=["a"], knowledge_bases=[base]
    )

    access = authenticate(key)

    access.require_agent("a")
    access.require_knowledge_base(base)
    with pytest.raises(NotFound):
        access.require_agent("b")
    with pytest.raises(NotFound):
        access.require_knowledge_base(uuid.uuid4())


def test_key__whose_last_agent_is_taken_away__sees_none() -> None:
    create_api_key(actor=ACTOR, name="none", scope="runtime", agents=[])

    row = ApiKey.objects.get()

    assert not row.all_agents
    assert row.agent_slugs == []


@pytest.mark.parametrize(
    ("scope", "reaches"),
    [
        ("runtime", ["runtime"]),
        ("editor", ["runtime", "editor"]),
        ("publisher", ["runtime", "editor", "publisher"]),
        ("admin", ["runtime", "editor", "publisher", "admin"]),
    ],
)
def test_scope__of_each_kind__includes_the_smaller_ones(scope: str, reaches: list[str]) -> None:
    access = Access(actor=ACTOR, scope=scope)  # type: ignore[arg-type]

    for other in ("runtime", "editor", "publisher", "admin"):
        if other in reaches:
            access.require(other)
        else:
            with pytest.raises(Forbidden):
                access.require(other)


def test_key__name_taken_or_scope_unknown__is_refused() -> None:
    create_api_key(actor=ACTOR, name="agent", scope="runtime")

    with pytest.raises(Conflict):
        create_api_key(actor=ACTOR, name="agent", scope="admin")
    with pytest.raises(Invalid) as refused:
        create_api_key(actor=ACTOR, name="other", scope="owner")

    assert refused.value.errors[0].allowed == ["runtime", "editor", "publisher", "admin"]


@pytest.mark.django_db(transaction=True)
def test_audit__outside_a_transaction__raises() -> None:
    with pytest.raises(RuntimeError):
        audit.record(actor=ACTOR, action="x.y", object_type="x", object_id=1)
