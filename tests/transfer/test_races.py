"""Imports that meet each other and publishes: numbers stay without gaps, nothing is half there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from agents.importing import Imported
from agents.models import Agent, AgentVersion
from registry.errors import Conflict
from tests import builders
from tests.database.threads import together
from tests.transfer.conftest import Elsewhere
from tests.transfer.world import World, answers, bring, export, verified

pytestmark = pytest.mark.django_db(transaction=True)


def test_import__of_one_archive_many_times_at_once__is_one_version(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    before = answers()
    export(archive, world.agent)
    with elsewhere():
        outcomes = together(*[partial(bring, archive)] * 4)

        done = [one for one in outcomes if isinstance(one, Imported) and not one.unchanged]
        others = [one for one in outcomes if one not in done]
        assert len(done) == 1
        assert all(
            one.unchanged if isinstance(one, Imported) else one.code == "import.busy"
            for one in others
            if isinstance(one, Imported | Conflict)
        )
        assert {type(one) for one in others} <= {Imported, Conflict}
        assert Agent.objects.count() == 1
        assert AgentVersion.objects.filter(state="published").count() == 1
        assert answers() == before


def test_import__while_the_agent_is_published__takes_a_number_of_its_own(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    builders.edit(world.agent, prompt="Another.")
    builders.publish(world.agent)
    later = archive.with_name("later.agent")
    export(later, world.agent, 2)
    with elsewhere():
        agent = bring(archive).agent
        builders.edit(agent, prompt="Mine.")

        outcomes = together(partial(bring, later), partial(builders.publish, agent))

        assert not [one for one in outcomes if isinstance(one, Exception)]
        versions = agent.versions.filter(state="published").order_by("number")
        assert [version.number for version in versions] == [1, 2, 3]
        assert {version.prompt for version in versions} == {
            "Answer from the passages.",
            "Another.",
            "Mine.",
        }
        assert all(verified(version)["ok"] for version in versions)
        assert agent.versions.filter(state="draft").count() == 1
