"""The whole idea in one run, through HTTP alone.

    python examples/journey.py --url http://127.0.0.1:8000 --key reg_…

Fills a knowledge base, gives an agent a binding and a ``rag`` tool, publishes version 1, asks it;
then changes the chunking, edits, renames and deletes documents, publishes version 2, and asks
version 1 again: the same passages, the same confidences, the same receipt. The key needs the
scope publisher or admin. Everything it makes has a new name, so it can be run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx

HANDBOOK = Path(__file__).resolve().parent / "handbook"
QUESTIONS = (
    "How many days do I have to send back something I do not want?",
    "Who pays the postage when I return a parcel?",
    "How long does a repair take?",
)


class Registry:
    """The few calls that this journey needs."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=120
        )

    def call(self, method: str, path: str, **options: Any) -> Any:
        response = self._http.request(method, f"/api/v1{path}", **options)
        if response.is_error:
            sys.exit(f"{method} {path}: {response.status_code}\n{response.text}")
        return response.json() if response.content else None

    def wait_for_build(self, base: str) -> dict[str, Any]:
        shown = None
        while True:
            state = self.call("GET", f"/knowledge-bases/{base}")
            build = state["build"]
            if build is None:
                return dict(state)
            progress = build["progress"]
            if progress != shown:
                print(f"   indexing: {progress['done']} of {progress['documents']} documents")
                shown = progress
            time.sleep(0.5)


def main() -> None:
    options = _options()
    registry = Registry(options.url, options.key)
    run = hashlib.sha256(str(time.time_ns()).encode()).hexdigest()[:6]

    print("1. A knowledge base and its documents")
    base = registry.call("POST", "/knowledge-bases", json={"name": f"Journey {run}"})["id"]
    documents = {}
    for path in sorted((HANDBOOK / "eu").iterdir()):
        uploaded = registry.call(
            "POST",
            f"/knowledge-bases/{base}/documents",
            files={"file": (path.name, path.read_bytes())},
            data={"metadata": json.dumps({"region": "EU"})},
        )
        documents[uploaded["name"]] = uploaded["id"]
    state = registry.wait_for_build(base)
    snapshot = state["currentSnapshot"]
    print(
        f"   snapshot {snapshot['number']}: {snapshot['documents']} documents, "
        f"{snapshot['chunks']} chunks"
    )

    print("2. An agent, its draft, version 1")
    slug = f"journey-{run}"
    registry.call("POST", "/agents", json={"slug": slug, "name": "Journey"})
    registry.call(
        "PATCH",
        f"/agents/{slug}/draft",
        headers={"If-Match": "*"},
        json={
            "prompt": "Answer from the passages and cite them.",
            "model": "any",
            "contextVariables": [
                {"name": "region", "type": "string", "values": ["EU", "UK", "US"]}
            ],
            "bindings": [{"knowledgeBase": base, "expression": "region == 'EU'"}],
            "tools": [
                {
                    "type": "rag",
                    "name": "search_eu",
                    "knowledgeBase": base,
                    "description": "Search the European handbook.",
                }
            ],
        },
    )
    first = registry.call("POST", f"/agents/{slug}/publish", json={"notes": "First."})
    registry.call("PUT", f"/agents/{slug}/aliases/production", json={"version": 1})
    print(f"   version {first['number']}, {first['digest']}")

    print("3. A conversation begins: which knowledge applies?")
    for region in ("EU", "US"):
        answer = registry.call(
            "POST",
            f"/agents/{slug}/resolve",
            json={"alias": "production", "context": {"region": region}},
        )
        for binding in answer["bindings"]:
            print(
                f"   region {region}: {binding['label']} applies: {binding['applies']} "
                f"({binding['reason']})"
            )

    print("4. The tool is called")
    before = [_ask(registry, slug, 1, question) for question in QUESTIONS]
    for question, answer in zip(QUESTIONS, before, strict=True):
        print(f"   {question}")
        for result in answer["results"][:2]:
            where = result["section"] or (f"page {result['page']}" if result["page"] else "")
            print(f"      {result['confidence']:.3f}  {result['document']['name']}  {where}")

    print("5. Everything changes: chunking, contents, names")
    names = sorted(documents)
    edited, renamed, deleted = names[0], names[1], names[2]
    registry.call(
        "PATCH",
        f"/knowledge-bases/{base}",
        json={"chunking": {"strategy": "recursive", "size": 60, "overlap": 10}},
    )
    registry.call(
        "PUT",
        f"/knowledge-bases/{base}/documents/{documents[edited]}",
        files={"file": (edited, b"# Nothing is as it was\n\nEverything in here is new.\n")},
    )
    registry.call(
        "PATCH",
        f"/knowledge-bases/{base}/documents/{documents[renamed]}",
        json={"name": f"renamed {renamed}"},
    )
    registry.call("DELETE", f"/knowledge-bases/{base}/documents/{documents[deleted]}")
    state = registry.wait_for_build(base)
    print(
        f"   edited {edited}, renamed {renamed}, deleted {deleted}; snapshot "
        f"{state['currentSnapshot']['number']}: {state['currentSnapshot']['chunks']} chunks"
    )
    second = registry.call("POST", f"/agents/{slug}/publish", json={"notes": "Second."})
    print(f"   version {second['number']}, {second['digest']}")

    print("6. Version 1 is asked again")
    same = differs = 0
    for question, earlier in zip(QUESTIONS, before, strict=True):
        again = _ask(registry, slug, 1, question)
        newer = _ask(registry, slug, 2, question)
        same += (again["results"], again["receipt"]) == (earlier["results"], earlier["receipt"])
        differs += newer["receipt"] != earlier["receipt"]
    print(f"   version 1 answers as before: {same} of {len(QUESTIONS)}")
    print(f"   version 2 answers differently: {differs} of {len(QUESTIONS)}")
    if same != len(QUESTIONS):
        sys.exit("A published version has changed its answer.")


def _ask(registry: Registry, slug: str, version: int, question: str) -> dict[str, Any]:
    return dict(
        registry.call(
            "POST",
            f"/agents/{slug}/tools/search_eu/call",
            json={"version": version, "query": question},
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", required=True, help="An API key of scope publisher or admin.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
