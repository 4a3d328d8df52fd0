"""How good rankings are, through the product: documents in, an evaluation out.

Each collection becomes a knowledge base, its judged questions an evaluation set; both rankings
are evaluated side by side. A document's place is that of its best chunk. nDCG has linear gains,
over all judged questions.

    python benchmarks/quality.py                      SciFact and Cranfield, whole and chunked
    python benchmarks/quality.py cranfield --strategies document
    python benchmarks/quality.py --folder /path/to/collections name ...

A collection is a folder with ``corpus.jsonl`` {id, title, text}, ``queries.jsonl`` {id, text} and
``qrels.tsv`` (query-id, corpus-id, score; with a header).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from _installation import ROOT, installation

COLLECTIONS = ("scifact", "cranfield")
CHUNKINGS: dict[str, dict[str, Any]] = {
    "document": {"strategy": "document", "size": 254, "overlap": 0},
    "recursive": {"strategy": "recursive", "size": 200, "overlap": 20},
}
SHOWN = ("nDCG@10", "recall@25", "MRR@10")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the quality of rankings.")
    parser.add_argument("collections", nargs="*", default=COLLECTIONS)
    parser.add_argument("--folder", type=Path, default=ROOT.parent / "shared" / "data" / "ir")
    parser.add_argument(
        "--strategies", nargs="+", choices=tuple(CHUNKINGS), default=tuple(CHUNKINGS)
    )
    options = parser.parse_args()
    with installation():
        print(f"{'collection':12} {'strategy':10} {'ranking':9}", *(f"{one:>9}" for one in SHOWN))
        for name in options.collections:
            for strategy in options.strategies:
                _measure(options.folder / name, strategy)


def _measure(folder: Path, strategy: str) -> None:
    from registry.actors import Actor
    from retrieval.documents import Upload, add_document
    from retrieval.evaluation import find_evaluation, start_evaluation
    from retrieval.evaluation_questions import save_questions
    from retrieval.knowledge_bases import create_knowledge_base, find
    from retrieval.turns import take_turn

    actor = Actor(kind="command", label="benchmark")
    base = create_knowledge_base(
        actor=actor,
        values={"name": f"{folder.name} {strategy}", "chunking": CHUNKINGS[strategy]},
    )
    present: set[str] = set()
    for document in _lines(folder / "corpus.jsonl"):
        text = f"{document.get('title') or ''} {document['text']}".strip()
        if text:
            present.add(str(document["id"]))
            upload = Upload(name=f"{document['id']}.txt", content=text.encode())
            add_document(actor=actor, base=base, upload=upload)
    while find(base.pk).current_snapshot is None:
        take_turn(base.pk, seconds=float("inf"))
    save_questions(actor=actor, base=base, questions=_questions(folder, present))
    evaluation = start_evaluation(
        actor=actor, base=find(base.pk), rankings=["dense", "reranked"], at_once=float("inf")
    )
    for score in find_evaluation(base, evaluation.pk).scores.all():
        values = [f"{score.measures['mean'][one]:9.4f}" for one in SHOWN]
        print(f"{folder.name:12} {strategy:10} {score.ranking:9}", *values, flush=True)


def _questions(folder: Path, present: set[str]) -> list[dict[str, Any]]:
    """Return the judged questions; those that are worded alike as one."""
    judged: dict[str, dict[str, int]] = {}
    for row in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, grade = row.split("\t")
        if int(grade) > 0 and document in present:
            judged.setdefault(query, {})[document] = int(grade)
    asked: dict[str, dict[str, int]] = {}
    for line in _lines(folder / "queries.jsonl"):
        if str(line["id"]) in judged:
            asked.setdefault(line["text"], {}).update(judged[str(line["id"])])
    return [
        {
            "query": query,
            "documents": [
                {"name": f"{document}.txt", "grade": grade} for document, grade in grades.items()
            ],
        }
        for query, grades in asked.items()
    ]


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open() as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    main()
