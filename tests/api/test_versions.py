from __future__ import annotations

import hashlib
from typing import Any

from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

AGENT = "/api/v1/agents/support"


def test_publish__draft__is_version_1_with_what_it_pins(api: CheckedClient) -> None:
    base = builders.base_with("Returns")
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="Answer.",
        bindings=[{"knowledgeBase": str(base.pk)}],
        tools=[builders.rag_tool(base)],
    )
    draft = api.get(f"{AGENT}/draft").json()

    response = api.post(f"{AGENT}/publish", {"notes": "First."}, format="json")

    assert response.status_code == 201
    body = response.json()
    assert (body["number"], body["notes"], body["publishedBy"]) == (1, "First.", "admin 0")
    for name in ("prompt", "model", "parameters", "contextVariables", "bindings", "tools"):
        assert body[name] == draft[name]
    manifest_digest = "sha256:" + hashlib.sha256(body["manifest"].encode()).hexdigest()
    assert body["digest"] == manifest_digest
    pinned = body["knowledgeBases"][0]
    assert (pinned["id"], pinned["name"], pinned["snapshot"]["number"]) == (
        str(base.pk),
        "Returns",
        1,
    )
    assert body.pop("warnings") == []
    assert api.get(f"{AGENT}/versions/1").json() == body
    next_draft = api.get(f"{AGENT}/draft").json()
    assert (next_draft["basedOn"], next_draft["bindings"]) == (1, draft["bindings"])


def test_publish__unchanged_draft__names_the_equal_version(api: CheckedClient) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)

    with nothing_written():
        response = api.post(f"{AGENT}/publish")

    assert assert_problem(response, 409, "publish.unchanged")["version"] == 1


def test_publish__stale_revision__is_refused(api: CheckedClient) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")

    with nothing_written():
        stale = api.post(f"{AGENT}/publish", HTTP_IF_MATCH='"1"')
    fresh = api.post(f"{AGENT}/publish", HTTP_IF_MATCH='"2"')

    assert_problem(stale, 412, "draft.stale_revision")
    assert fresh.status_code == 201


def test_publish__outdated_but_accepted__pins_what_is_there(api: CheckedClient) -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")
    builders.edit(agent, prompt="Another.")
    builders.add_text(base, "new.md", "New.")

    response = api.post(f"{AGENT}/publish", {"acceptOutdated": True}, format="json")

    assert response.status_code == 201
    assert response.json()["knowledgeBases"][0]["snapshot"]["number"] == 1


def test_publish__wrong_notes_or_flag__is_refused(api: CheckedClient) -> None:
    builders.make_agent("support")

    with nothing_written():
        flag = api.post(f"{AGENT}/publish", {"acceptOutdated": "yes"}, format="json")
        notes = api.post(f"{AGENT}/publish", {"notes": 7}, format="json")

    assert_problem(flag, 422, "invalid", field="acceptOutdated", value="yes")
    assert_problem(notes, 422, "invalid", field="notes", value=7)


def test_versions__several__are_listed_newest_first(api: CheckedClient) -> None:
    agent = builders.make_agent("support")
    for prompt in ("One.", "Two.", "Three."):
        builders.edit(agent, prompt=prompt)
        builders.publish(agent, notes=prompt)

    first = api.get(f"{AGENT}/versions", {"limit": "2"}).json()
    second = api.get(f"{AGENT}/versions", {"limit": "2", "cursor": first["next"]}).json()

    listed = [*first["results"], *second["results"]]
    assert [(version["number"], version["notes"]) for version in listed] == [
        (3, "Three."),
        (2, "Two."),
        (1, "One."),
    ]


def test_version__unknown__is_not_found(api: CheckedClient) -> None:
    builders.make_agent("support")

    for address in ("versions/1", "versions/0", "versions/99999999999", "versions/1/diff/draft"):
        assert_problem(api.get(f"{AGENT}/{address}"), 404, "version.not_found")


def test_diff__between_versions__names_each_changed_member(api: CheckedClient) -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")
    binding = api.get(f"{AGENT}/draft").json()["bindings"][0]
    builders.edit(agent, prompt="Another.", bindings=[{**binding, "label": "New"}], tools=[])
    builders.add_text(base, "new.md", "New.")
    builders.build(base)
    builders.publish(agent)

    body = api.get(f"{AGENT}/versions/1/diff/2").json()

    assert (body["from"], body["to"]) == (1, 2)
    changes = {change["path"]: change for change in body["changes"]}
    tool_path = next(path for path in changes if path.startswith("tools."))
    assert set(changes) == {
        "prompt",
        f"bindings.{binding['id']}.label",
        tool_path,
        f"knowledgeBases.{base.pk}.snapshotDigest",
    }
    assert changes["prompt"]["after"] == "Another."
    assert changes[f"bindings.{binding['id']}.label"]["after"] == "New"
    assert changes[tool_path]["before"]["name"] == "search"
    assert changes[tool_path]["after"] is None


def test_diff__to_the_draft__shows_what_publishing_would_change(api: CheckedClient) -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")

    unchanged = api.get(f"{AGENT}/versions/1/diff/draft").json()
    builders.edit(agent, model="another-model")
    changed = api.get(f"{AGENT}/versions/1/diff/draft").json()

    assert unchanged == {"from": 1, "to": "draft", "changes": []}
    assert changed["changes"] == [{"path": "model", "before": "", "after": "another-model"}]


def test_restore__earlier_version__makes_the_draft_a_copy_of_it(api: CheckedClient) -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")
    first = api.get(f"{AGENT}/versions/1").json()
    builders.edit(agent, prompt="Another.", bindings=[], tools=[])
    builders.publish(agent)

    response = api.post(f"{AGENT}/versions/1/restore", HTTP_IF_MATCH='"3"')

    assert (response.status_code, response["ETag"]) == (200, '"4"')
    body = response.json()
    assert (body["revision"], body["basedOn"]) == (4, 1)
    for name in ("prompt", "bindings", "tools"):
        assert body[name] == first[name]
    assert api.get(f"{AGENT}/versions/2").json()["prompt"] == "Another."


def test_restore__without_or_with_a_stale_revision__is_refused(api: CheckedClient) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)
    builders.edit(agent, prompt="Unsaved work.")

    with nothing_written():
        none = api.post(f"{AGENT}/versions/1/restore")
        stale = api.post(f"{AGENT}/versions/1/restore", HTTP_IF_MATCH='"2"')
        unknown = api.post(f"{AGENT}/versions/9/restore", HTTP_IF_MATCH="*")

    assert_problem(none, 428, "draft.revision_required")
    assert_problem(stale, 412, "draft.stale_revision")
    assert_problem(unknown, 404, "version.not_found")
    assert api.get(f"{AGENT}/draft").json()["prompt"] == "Unsaved work."


def test_publish__by_an_editor__is_forbidden(client_for: Any) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")

    response = client_for("editor").post(f"{AGENT}/publish")

    assert_problem(response, 403, "scope.insufficient")
    assert agent.versions.filter(state="published").count() == 0


def test_verify__published_version__holds_in_every_part(api: CheckedClient) -> None:
    builders.published(builders.base_with(), slug="support")

    response = api.post(f"{AGENT}/versions/1/verify", format="json")

    assert response.status_code == 200
    parts = [part["part"] for part in response.json()["parts"]]
    assert response.json()["ok"]
    assert parts[:2] == ["digest", "manifest"]
    assert {"document returns.md revision 1", "document warranty.md revision 1"} < set(parts)


def test_verify__unknown_version__is_not_found(api: CheckedClient) -> None:
    builders.make_agent("support")

    response = api.post(f"{AGENT}/versions/7/verify", format="json")

    assert_problem(response, 404, "version.not_found")
