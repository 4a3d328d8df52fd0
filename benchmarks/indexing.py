"""What indexing costs beside its floor, and what a change costs beside a whole build.

Everything is measured in one run, the things compared one after the other in every round; what
is printed are ratios, medians over the rounds. Absolute figures are for orientation. On a busy
machine the ratios of processor time, the database's included, say more than those of the clock.

    python benchmarks/indexing.py                       all parts; some minutes on two cores
    python benchmarks/indexing.py --rounds 1 --documents 40 --edits 200      a quick look
    python benchmarks/indexing.py --only memory --chunks 100000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _installation import ROOT, installation

SHARED = ROOT.parent / "shared" / "data"
PARTS = ("throughput", "edit", "rechunk", "memory")
DEFAULT_CHUNKING = {"strategy": "recursive", "size": 200, "overlap": 20}
MIB = 1024 * 1024


def main() -> None:
    options = _options()
    with installation():
        print(f"{_cores()} cores, load {os.getloadavg()[0]:.1f}, {options.workers} workers")
        for part in options.only or PARTS:
            globals()[f"measure_{part}"](options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure indexing.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=_cores(), help="one-thread processes")
    parser.add_argument("--documents", type=int, default=270, help="how many of the corpus")
    parser.add_argument("--edits", type=int, default=1000, help="documents of the base to edit in")
    parser.add_argument("--chunks", type=int, default=5000, help="of one long document, in memory")
    parser.add_argument("--corpus", type=Path, help="folder of texts; default: the help centre")
    parser.add_argument("--book", type=Path, help="default: the largest PDF of the shared data")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    return parser.parse_args()


def _cores() -> int:
    return len(os.sched_getaffinity(0))


# -- the parts -------------------------------------------------------------------------------


def measure_throughput(options: argparse.Namespace) -> None:
    """The whole pipeline against onnxruntime alone, and against the loop one would write."""
    documents = _corpus(options)[: options.documents]
    whole, bare, plain = list[Race](), list[Race](), list[Race]()
    chunks = 0
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        for _ in range(options.rounds):
            base = _make_base("Throughput", documents)
            whole.append(_race(["pipeline", str(base.pk)], options.workers))
            texts = _chunk_texts(base)
            chunks = len(texts)
            _delete(base)
            file.seek(0)
            file.truncate()
            json.dump(texts, file)
            file.flush()
            parts = [
                ["bare", file.name, str(start), str(options.workers)]
                for start in range(options.workers)
            ]
            bare.append(_race_of(parts))
            plain.append(_race(["plain", file.name], 1))
    size = sum(len(content) for _, content in documents)
    print(f"\nwhole pipeline: {len(documents)} documents, {size / MIB:.1f} MiB, {chunks} chunks")
    for name, races in (("pipeline", whole), ("bare onnxruntime", bare), ("plain loop", plain)):
        took = statistics.median(race.seconds for race in races)
        cpu = statistics.median(race.cpu for race in races)
        print(
            f"  {name:18} {took:6.1f} s  {chunks / took:6.1f} chunks/s  {cpu:6.1f} s of processor"
        )
    for what, aim, others in (
        ("bare onnxruntime, same processes", 0.9, bare),
        ("the plain loop, one process", 1.2, plain),
    ):
        print(f"  against {what}: {_ratio(others, whole)}  (aim ≥ {aim})")


def measure_edit(options: argparse.Namespace) -> None:
    """An edit of one document against the full build, by one worker."""
    from retrieval.documents import Upload, replace_document
    from retrieval.models import Chunk, Document, KnowledgeBase
    from retrieval.turns import work_off_small

    texts = [content.decode() for _, content in _corpus(options)]
    documents = [
        (f"{number:05}.md", _mixed(texts, number).encode()) for number in range(options.edits)
    ]
    base = _make_base("Edit", documents)
    full = _race(["pipeline", str(base.pk)], 1).seconds
    took, embedded = [], []
    for number in range(max(5, options.rounds)):
        document = Document.objects.get(knowledge_base=base, name=documents[number * 7][0])
        content = documents[number * 7][1] + f"\n\nEdited for the {number}th time.\n".encode()
        before = Chunk.objects.count()
        replace_document(
            actor=_actor(),
            base=base,
            document_id=document.pk,
            upload=Upload(name="", content=content),
        )
        started = time.monotonic()
        with _counted() as texts_embedded:
            work_off_small(base.pk)
        took.append(time.monotonic() - started)
        embedded.append(len(texts_embedded))
        assert Chunk.objects.count() > before
    current = KnowledgeBase.objects.select_related("current_snapshot").get(pk=base.pk)
    assert current.current_snapshot is not None
    print(f"\nan edit in {options.edits} documents, one worker")
    print(f"  full build {full:.1f} s, {current.current_snapshot.chunk_count} chunks")
    print(
        f"  edit {statistics.median(took):.2f} s, {statistics.median(embedded):.0f} texts embedded"
    )
    print(f"  edit against full build  {100 * statistics.median(took) / full:.2f} %  (aim ≤ 2 %)")
    _delete(base)


def measure_rechunk(options: argparse.Namespace) -> None:
    """Going back to an earlier chunking: nothing is embedded."""
    from retrieval.knowledge_bases import find, update_knowledge_base

    base = _make_base("Rechunk", _corpus(options)[: max(10, options.documents // 5)])
    lines = []
    digests = []
    for name, chunking in (
        ("first build", None),
        ("half the size", {"strategy": "recursive", "size": 100, "overlap": 10}),
        ("back again", DEFAULT_CHUNKING),
    ):
        if chunking is not None:
            update_knowledge_base(
                actor=_actor(), knowledge_base_id=base.pk, values={"chunking": chunking}
            )
        started = time.monotonic()
        with _counted() as texts:
            _turn(base)
        lines.append(f"  {name:14} {time.monotonic() - started:6.2f} s, {len(texts)} embedded")
        current = find(base.pk).current_snapshot
        assert current is not None
        digests.append(current.digest)
    print("\ngoing back to an earlier chunking")
    print("\n".join(lines))
    print(f"  digest as before: {digests[0] == digests[2]}  (aim: nothing embedded)")
    _delete(base)


def measure_memory(options: argparse.Namespace) -> None:
    """The most memory that a worker takes for one long document."""
    book = options.book or max(
        (SHARED / "docs" / "files").glob("*.pdf"),
        key=lambda path: path.stat().st_size,
        default=None,
    )
    print("\npeak memory of a worker (its model loaded: about the first line)")
    small = [("small.md", b"A short text.")]
    long = [("long.txt", _short_texts(options.chunks))]
    cases: list[tuple[str, list[tuple[str, bytes]], dict[str, Any]]] = [
        ("one short text", small, {}),
    ]
    if book is not None:
        cases.append((f"the book, {book.stat().st_size / MIB:.1f} MiB", _read([book]), {}))
    short = {"chunking": {"strategy": "recursive", "size": 6, "overlap": 0}}
    cases.append((f"one document of about {options.chunks} chunks", long, short))
    for name, documents, values in cases:
        base = _make_base("Memory", documents, **values)
        race = _race(["pipeline", str(base.pk)], 1)
        chunks = len(_chunk_texts(base))
        print(f"  {name:40} {race.peak / MIB:6.0f} MiB, {chunks} chunks, {race.seconds:.0f} s")
        _delete(base)


# -- how -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Race:
    """Seconds until the last of some processes was done, seconds of processor time of all of them
    and of the database, and the most memory that one of them took, in bytes."""

    seconds: float
    cpu: float
    peak: int


def _ratio(others: Sequence[Race], ours: Sequence[Race]) -> str:
    pairs = list(zip(others, ours, strict=True))
    by_clock = [other.seconds / our.seconds for other, our in pairs]
    by_cpu = [other.cpu / our.cpu for other, our in pairs]
    rounds = ", ".join(f"{ratio:.2f}" for ratio in by_clock)
    return (
        f"{statistics.median(by_clock):.2f} by the clock (rounds: {rounds}), "
        f"{statistics.median(by_cpu):.2f} by processor time"
    )


def _database_cpu() -> float:
    """Return the seconds of processor time that PostgreSQL has used."""
    from registry.embedded.instance import Instance

    folder = Instance(Path(os.environ["DATA_DIR"])).postgres_dir
    postmaster = (folder / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    ticks = _ticks(postmaster, 4) + sum(_ticks(child, 2) for child in children)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(process: str, fields: int) -> int:
    """Return user and system time; with 4 ``fields`` also those of children that have ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return 0
    return sum(map(int, stat.rpartition(")")[2].split()[11 : 11 + fields]))


def _race(command: list[str], count: int) -> Race:
    return _race_of([command] * count)


def _race_of(commands: Sequence[list[str]]) -> Race:
    """Run processes side by side, once all of them have loaded what they need."""
    program = str(Path(__file__).with_name("_indexing_processes.py"))
    racers = [
        subprocess.Popen(
            [sys.executable, program, *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    for racer in racers:
        assert racer.stdout is not None
        line = racer.stdout.readline()
        assert line == "ready\n", line
    database = _database_cpu()
    started = time.monotonic()
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.readline()
    seconds = time.monotonic() - started
    answers = []
    for racer in racers:
        assert racer.stdout is not None
        answers.append(json.loads(racer.stdout.readline()))
        racer.communicate()
    return Race(
        seconds,
        sum(answer["cpu"] for answer in answers) + _database_cpu() - database,
        max(answer["peak"] for answer in answers),
    )


def _make_base(name: str, documents: Sequence[tuple[str, bytes]], **values: Any) -> Any:
    """Return a base with these documents, none of which is built yet."""
    from retrieval.documents import Upload, add_document
    from retrieval.knowledge_bases import create_knowledge_base

    base = create_knowledge_base(actor=_actor(), values={"name": name, **values})
    for document, content in documents:
        add_document(actor=_actor(), base=base, upload=Upload(name=document, content=content))
    return base


def _delete(base: Any) -> None:
    from retrieval.knowledge_bases import delete_knowledge_base

    delete_knowledge_base(actor=_actor(), knowledge_base_id=base.pk)


def _actor() -> Any:
    from registry.actors import Actor

    return Actor(kind="command", label="benchmark")


def _turn(base: Any) -> None:
    from retrieval.turns import take_turn

    take_turn(base.pk, seconds=float("inf"))


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Collect the texts that the encoder is given."""
    from retrieval.encoders import DEFAULT_MODEL, encoder_for

    encoder: Any = encoder_for(DEFAULT_MODEL)
    embed: Callable[[Sequence[str]], Any] = encoder.encode_passages
    texts: list[str] = []

    def counting(given: Sequence[str]) -> Any:
        texts.extend(given)
        return embed(given)

    encoder.encode_passages = counting
    try:
        yield texts
    finally:
        del encoder.encode_passages


def _chunk_texts(base: Any) -> list[str]:
    from retrieval.models import Chunk

    chunks = Chunk.objects.filter(
        indexed_document__extraction__revision__document__knowledge_base=base
    )
    return [text or "" for text in chunks.order_by("pk").values_list("text", flat=True)]


def _corpus(options: argparse.Namespace) -> list[tuple[str, bytes]]:
    folder = options.corpus or SHARED / "kb" / "files"
    if not folder.exists():
        folder = ROOT / "examples" / "handbook"
    return _read(sorted(folder.rglob("*.md")))


def _read(paths: Sequence[Path]) -> list[tuple[str, bytes]]:
    return [(f"{number:04} {path.name}", path.read_bytes()) for number, path in enumerate(paths)]


def _mixed(texts: Sequence[str], number: int) -> str:
    """Return a text of some 400 words, no two alike: paragraphs of the corpus and a number."""
    words = texts[number % len(texts)].split() + texts[(number * 7 + 3) % len(texts)].split()
    start = (number // len(texts)) * 40
    lines = [" ".join(words[at : at + 40]) for at in range(start, start + 400, 40)]
    return f"# Article {number}\n\n" + "\n\n".join(f"{number}: {line}" for line in lines if line)


def _short_texts(count: int) -> bytes:
    return "\n\n".join(f"Entry {number}." for number in range(count)).encode()


if __name__ == "__main__":
    main()
