"""What a purge that was committed still allows: nothing."""

from __future__ import annotations

import pytest

from retrieval.knowledge_bases import delete_knowledge_base
from tests.builders import ACTOR
from tests.database.attacks import commit, refused, value
from tests.database.conftest import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def committed(transactional_db: None) -> World:
    return make_world()


def test_purge__permission_of_an_earlier_transaction__has_ended(committed: World) -> None:
    """The first purge is committed; bytes that came back by any way are safe from its row."""
    with refused("a revision never changes"):
        commit(
            "UPDATE retrieval_documentrevision SET content = NULL, notice = '' "
            f"WHERE id = {committed.purged.pk}"
        )


def test_knowledge_base__with_a_purged_document__can_be_deleted_and_the_record_stays(
    committed: World,
) -> None:
    delete_knowledge_base(actor=ACTOR, knowledge_base_id=committed.other.pk)

    assert value("SELECT count(*) FROM retrieval_purge") == 1
    left = value(
        "SELECT count(*) FROM retrieval_document WHERE knowledge_base_id = %s",
        committed.other.pk,
    )
    assert left == 0
