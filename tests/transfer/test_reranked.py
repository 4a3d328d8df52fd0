"""A version with a cross-encoder answers elsewhere by the scores that were recorded here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from agents.models import AgentVersion
from agents.versions import runnable
from retrieval import encoders
from retrieval.models import KnowledgeBase
from retrieval.questions import Question
from retrieval.search import retrieve
from tests import builders
from tests.retrieval.cross_encoders import make_cross_encoder
from tests.transfer.conftest import Elsewhere
from tests.transfer.world import bring, export

pytestmark = pytest.mark.django_db(transaction=True)


def _answer(version: AgentVersion) -> str:
    base = KnowledgeBase.objects.get()
    target = runnable(version.agent, version).target(base.pk)
    question = Question(query="Who pays the postage?", confidence_threshold=0)
    return retrieve(target, question).receipt


def test_import__of_a_version_with_a_cross_encoder__answers_by_the_scores_of_there(
    elsewhere: Elsewhere, archive: Path, tmp_path: Path, settings: Settings
) -> None:
    make_cross_encoder(tmp_path / "one", seed=1)
    make_cross_encoder(tmp_path / "other", seed=2)
    settings.RERANK_MODEL = str(tmp_path / "one")
    base = builders.base_with()
    builders.apply_settings(base, rerankEnabled=True, settingsMode="applied")
    agent, version = builders.published(base, slug="support")
    here = _answer(version)
    export(archive, agent)

    with elsewhere():
        settings.RERANK_MODEL = str(tmp_path / "other")
        there = _answer(bring(archive).version)

    encoders._rerankers.clear()
    assert there == here
