"""An ended evaluation stays what it was, whoever writes SQL."""

from __future__ import annotations

import pytest

from tests.database.attacks import commit, refused, value
from tests.database.conftest import World

pytestmark = pytest.mark.django_db

_DONE = "(SELECT id FROM retrieval_evaluation WHERE state = 'done')"
_RUNNING = "(SELECT id FROM retrieval_evaluation WHERE state = 'running')"
_COLUMNS = (
    "position, snapshot_number, snapshot_digest, ranking, recipe, settings, model_name, "
    "model_fingerprint, chunking, document_count, chunk_count, outcomes, measures, sealed"
)


def _copy(into: str, **values: str) -> str:
    columns = ", ".join(values.get(name, name) for name in _COLUMNS.split(", "))
    return (
        f"INSERT INTO retrieval_evaluationscore (evaluation_id, {_COLUMNS}) "
        f"SELECT {into}, {columns} FROM retrieval_evaluationscore "
        f"WHERE evaluation_id = {_DONE} AND position = 0"
    )


def test_score__put_into_an_ended_evaluation__is_refused(world: World) -> None:
    with refused():
        commit(_copy(_DONE, position="7", sealed="false"))


def test_score__that_comes_sealed__is_refused(world: World) -> None:
    with refused():
        commit(_copy(_RUNNING, position="7"))


def test_score__put_into_a_running_evaluation__is_taken(world: World) -> None:
    commit(_copy(_RUNNING, position="7", sealed="false"))

    assert value("SELECT count(*) FROM retrieval_evaluationscore WHERE position = 7") == 1


def test_evaluation__done_before_its_scores_are__is_refused(world: World) -> None:
    with refused():
        commit("UPDATE retrieval_evaluation SET state = 'done' WHERE state = 'running'")


def test_evaluation__deleted_and_put_back__cannot_lose_a_score(world: World) -> None:
    with refused():
        commit(f"DELETE FROM retrieval_evaluationscore WHERE evaluation_id = {_DONE}")
    with refused():
        commit("DELETE FROM retrieval_evaluation WHERE state = 'done'")
