from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from registry.models import AuditEvent
from retrieval.extractor import installed_recipe
from retrieval.indexing import start_build
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem

BASES = "/api/v1/knowledge-bases"


def test_create__name_only__has_the_defaults(api: CheckedClient) -> None:
    response = api.post(BASES, {"name": "Returns"}, format="json")

    assert response.status_code == 201
    body = response.json()
    assert {key: body[key] for key in body if key not in {"id", "createdAt"}} == {
        "name": "Returns",
        "embeddingModel": "all-MiniLM-L6-v2",
        "chunking": {"strategy": "recursive", "size": 200, "overlap": 20},
        "settings": {
            "defaultTopK": 5,
            "similarityThreshold": None,
            "maxContextLength": None,
            "rerankEnabled": False,
            "diversityEnabled": False,
            "settingsMode": "recorded",
        },
        "settingsEffect": {
            "defaultTopK": "read",
            "similarityThreshold": "recorded",
            "maxContextLength": "recorded",
            "rerankEnabled": "recorded",
            "diversityEnabled": "recorded",
        },
        "currentSnapshot": None,
        "build": None,
        "newerExtractor": None,
        "lastBuild": None,
        "failurePolicy": "becomeCurrent",
    }
    assert api.get(f"{BASES}/{body['id']}").json() == body


def test_create__settings_given__merge_over_the_defaults(api: CheckedClient) -> None:
    response = api.post(
        BASES,
        {
            "name": "Returns",
            "chunking": {"strategy": "recursive", "size": 100, "overlap": 0},
            "settings": {"similarityThreshold": 0.6, "settingsMode": "applied"},
        },
        format="json",
    )

    body = response.json()
    assert body["chunking"] == {"strategy": "recursive", "size": 100, "overlap": 0}
    assert body["settings"]["defaultTopK"] == 5
    assert body["settings"]["similarityThreshold"] == 0.6
    assert set(body["settingsEffect"].values()) == {"read"}


def test_create__name_taken__is_a_conflict(api: CheckedClient) -> None:
    builders.make_base("Returns")

    response = api.post(BASES, {"name": "Returns"}, format="json")

    assert_problem(response, 409, "knowledge_base.name_taken", field="name", value="Returns")


def test_create__as_reranked_but_recorded__is_taken(api: CheckedClient) -> None:
    response = api.post(
        BASES, {"name": "Returns", "settings": {"rerankEnabled": True}}, format="json"
    )

    assert response.status_code == 201
    assert response.json()["settingsEffect"]["rerankEnabled"] == "recorded"


def test_update__some_settings__keeps_the_others_and_builds_nothing(api: CheckedClient) -> None:
    base = builders.make_base(settings={"defaultTopK": 7})

    response = api.patch(
        f"{BASES}/{base.pk}",
        {"name": "Renamed", "settings": {"maxContextLength": 900}},
        format="json",
    )

    body = response.json()
    assert response.status_code == 200
    assert body["name"] == "Renamed"
    assert body["settings"]["defaultTopK"] == 7
    assert body["settings"]["maxContextLength"] == 900
    assert body["build"] is None


def test_update__chunking__shows_a_pending_build_at_once(api: CheckedClient) -> None:
    base = builders.base_with()

    body = api.patch(
        f"{BASES}/{base.pk}",
        {"chunking": {"strategy": "recursive", "size": 50, "overlap": 0}},
        format="json",
    ).json()

    assert body["build"]["state"] == "pending"
    assert body["build"]["snapshot"] == 2
    assert body["build"]["paused"] is False
    assert body["currentSnapshot"]["number"] == 1


def test_update__nothing_new__writes_no_audit_row(api: CheckedClient) -> None:
    base = builders.make_base("Returns")
    before = AuditEvent.objects.count()

    api.patch(f"{BASES}/{base.pk}", {"name": "Returns"}, format="json")

    assert AuditEvent.objects.count() == before


def test_build__while_it_runs__shows_its_progress(api: CheckedClient) -> None:
    base = builders.make_base()
    builders.add_text(base, "a.md", builders.RETURNS)
    builders.add_text(base, "b.md", builders.WARRANTY)
    start_build(base.pk)

    build = api.get(f"{BASES}/{base.pk}").json()["build"]

    assert build == {
        "snapshot": 1,
        "state": "building",
        "progress": {
            "documents": 2,
            "done": 0,
            "failed": 0,
            "chunks": 0,
            "percent": 0.0,
            "secondsLeft": None,
        },
        "paused": False,
    }


def test_build__after_it_ended__is_null_and_its_snapshot_current(api: CheckedClient) -> None:
    base = builders.base_with()

    body = api.get(f"{BASES}/{base.pk}").json()

    assert body["build"] is None
    snapshot = body["currentSnapshot"]
    assert (snapshot["number"], snapshot["state"], snapshot["documents"]) == (1, "ready", 2)
    assert snapshot["chunks"] >= 2


def test_reindex__of_a_built_base__is_accepted_and_pending(api: CheckedClient) -> None:
    base = builders.base_with()

    response = api.post(f"{BASES}/{base.pk}/reindex")

    assert response.status_code == 202
    assert response.json()["build"]["state"] == "pending"


def test_delete__unused__is_gone_and_its_name_free(api: CheckedClient) -> None:
    base = builders.base_with("Returns")

    response = api.delete(f"{BASES}/{base.pk}")

    assert response.status_code == 204
    assert_problem(api.get(f"{BASES}/{base.pk}"), 404, "knowledge_base.not_found")
    assert_problem(api.delete(f"{BASES}/{base.pk}"), 404, "knowledge_base.not_found")
    assert api.post(BASES, {"name": "Returns"}, format="json").status_code == 201


def test_delete__in_use__names_every_version_and_draft(api: CheckedClient) -> None:
    base = builders.base_with()
    builders.published(base, slug="support")

    response = api.delete(f"{BASES}/{base.pk}")

    problem = assert_problem(response, 409, "knowledge_base.in_use")
    assert problem["holders"] == ["support v1", "draft of support"]
    assert api.get(f"{BASES}/{base.pk}").status_code == 200


def test_delete__in_use_by_agents_outside_the_key__does_not_name_them(
    client_for: Any, api: CheckedClient
) -> None:
    base = builders.base_with()
    builders.published(base, slug="secret")
    limited = client_for("editor", agents=["mine"], knowledge_bases=[base.pk])

    response = limited.delete(f"{BASES}/{base.pk}")

    assert_problem(response, 409, "knowledge_base.in_use")
    assert "secret" not in response.content.decode()
    assert "another agent" in response.json()["holders"]


def test_list__many__comes_in_pages_by_name(api: CheckedClient) -> None:
    for name in ("C", "A", "B"):
        builders.make_base(name)

    first = api.get(BASES, {"limit": "2"}).json()
    second = api.get(BASES, {"limit": "2", "cursor": first["next"]}).json()

    assert [item["name"] for item in first["results"]] == ["A", "B"]
    assert [item["name"] for item in second["results"]] == ["C"]
    assert second["next"] is None


@pytest.mark.parametrize("count", [1, 4])
def test_list__however_many__takes_four_queries(
    api: CheckedClient, django_assert_num_queries: Any, count: int
) -> None:
    for _ in range(count):
        builders.add_text(builders.make_base(), "a.md", "A.")
    for base in KnowledgeBase.objects.all()[:2]:
        start_build(base.pk)

    with django_assert_num_queries(4):  # the key, the page, the builds, the readings
        response = api.get(BASES)

    assert len(response.json()["results"]) == count


def test_newer_extractor__shown_and_asked_for__reads_anew(
    api: CheckedClient, settings: Any, tmp_path: Path
) -> None:
    settings.OCR = "off"
    base = builders.base_with()
    address = f"{BASES}/{base.pk}"
    assert api.get(address).json()["newerExtractor"] is None
    (tmp_path / "eng.traineddata").write_bytes(b"data of another engine")
    settings.OCR, settings.OCR_DATA_DIR = "auto", str(tmp_path)

    shown = api.get(address).json()["newerExtractor"]
    answer = api.post(f"{address}/reindex", {"reextract": True}, format="json")
    builders.build(base)

    assert shown == {"recipe": installed_recipe(), "documents": 2}
    assert answer.status_code == 202
    assert answer.json()["build"]["state"] == "pending"
    assert api.get(address).json()["newerExtractor"] is None
    assert AuditEvent.objects.get(action="knowledge_base.reindexed").after == {
        "retried": 0,
        "reextracted": 2,
    }


@pytest.mark.parametrize("body", [{"reextract": "yes"}, {"reextract": None}, {"anew": True}])
def test_reindex__body_that_is_wrong__names_the_member(api: CheckedClient, body: Any) -> None:
    base = builders.make_base()

    response = api.post(f"{BASES}/{base.pk}/reindex", body, format="json")

    assert response.json()["errors"][0]["field"] == next(iter(body))
    assert response.status_code == 422
