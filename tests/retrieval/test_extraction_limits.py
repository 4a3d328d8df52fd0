"""Whatever a document makes its reader do, it happens to one child process and to nobody else."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from retrieval.extraction import ExtractionFailed, Limits, extract
from retrieval.extraction.sandbox import Outcome, run_limited
from retrieval.extraction.sandbox_host import EXIT_EXCEPTION, EXIT_MEMORY, EXIT_OUTPUT
from tests.retrieval import documents

MIB = 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def run(task: str, content: bytes = b"", **limits: Any) -> Outcome:
    return run_limited(f"tests.retrieval.hostile:{task}", content, {}, Limits(**limits))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    # Not by /proc/…/children: not every kernel is built with it
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def is_host(pid: int) -> bool:
    try:
        return b"sandbox_host" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def hosts() -> list[int]:
    return [pid for pid in children_of(os.getpid()) if is_host(pid)]


def until(condition: Callable[[], object], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def bomb(part: str, head: str, repeated: str, times: int, **parts: str) -> bytes:
    """Return an archive whose one part unfolds to ``times`` the repeated text."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        with archive.open(part, "w") as target:
            target.write(head.encode())
            block = (repeated * 1000).encode()
            for _ in range(times // 1000):
                target.write(block)
    return file.getvalue()


def test_child__that_behaves__gives_its_output():
    outcome = run("echo", b"\0content")

    assert (outcome.exit_code, outcome.output, outcome.timed_out) == (0, b"\0content", False)


def test_child__that_spins__is_stopped_by_its_time_of_cpu():
    begun = time.monotonic()

    outcome = run("spin", cpu_seconds=1)

    assert outcome.timed_out
    assert time.monotonic() - begun < 60


def test_child__that_hangs_and_ignores_signals__is_stopped_by_the_clock():
    begun = time.monotonic()

    outcome = run("sleep", wall_seconds=0.5)

    assert outcome.timed_out
    assert 0.4 < time.monotonic() - begun < 50


def test_child__that_grows__is_refused_memory():
    outcome = run("grow", memory=64 * MIB)

    assert outcome.exit_code == EXIT_MEMORY
    assert outcome.peak_memory < 160 * MIB


@pytest.mark.parametrize(("task", "number"), [("crash", signal.SIGSEGV), ("die", signal.SIGKILL)])
def test_child__that_dies_of_a_signal__is_told_by_it(task, number):
    outcome = run(task)

    assert outcome.signal == number
    assert not outcome.timed_out


def test_child__that_raises__leaves_its_last_words():
    outcome = run("fail")

    assert outcome.exit_code == EXIT_EXCEPTION
    assert "a reader gave up" in outcome.errors


def test_child__that_writes_without_end__is_stopped():
    assert run("flood", output=4 * MIB).exit_code == EXIT_OUTPUT


def test_child__that_leaves_a_process_behind__takes_it_along():
    pid = int(run("leave_a_child").output)

    assert until(lambda: not is_running(pid))


def test_child__that_looks_around__sees_no_secret_of_its_caller(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@host/name")

    seen = json.loads(run("look_around").output)

    assert "secret" not in json.dumps(seen["environment"])
    assert "DATABASE_URL" not in seen["environment"]
    assert seen["group"]
    # Standard streams, its output and the folder that it lists: no socket, no pipe
    assert len(seen["files"]) == 5


def test_host__after_any_end_of_a_child__is_used_again():
    run("echo")
    before = hosts()
    for task in ("fail", "crash", "die"):
        run(task)

    assert run("echo", b"fine").output == b"fine"
    assert hosts() == before


def test_host__that_was_killed_while_idle__is_replaced_unnoticed():
    run("echo")
    for pid in hosts():
        os.kill(pid, signal.SIGKILL)

    assert run("echo", b"fine").output == b"fine"


def test_host__that_is_killed_at_work__takes_its_child_along():
    workers: list[int] = []

    def kill_at_work():
        until(lambda: any(map(children_of, hosts())))
        for host in hosts():
            workers.extend(children_of(host))
            os.kill(host, signal.SIGKILL)

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    outcome = run("sleep", wall_seconds=15)
    killer.join()

    # Tried once more on a new host, which ends it by the clock
    assert outcome.timed_out
    assert workers
    assert until(lambda: not any(map(is_running, workers)))


def test_child__whose_host_died_before_it_could_ask_for_a_signal__ends():
    program = (
        "import os, time\n"
        "from retrieval.extraction import sandbox_host\n"
        "host = os.getpid()\n"
        "if os.fork() == 0:\n"
        "    while os.getppid() == host:\n"
        "        time.sleep(0.01)\n"
        "    sandbox_host._die_with(host)\n"
        "    os.write(1, b'still here')\n"
    )

    # Standard output ends when the child does
    host = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=-1, check=True)

    assert host.stdout == b""


def test_caller__that_is_killed__leaves_nothing_running():
    program = (
        "from retrieval.extraction.sandbox import Limits, run_limited\n"
        "run_limited('tests.retrieval.hostile:sleep', b'', {}, Limits())"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    found: list[int] = []

    def is_at_work() -> bool:
        found[:] = [pid for host in children_of(caller.pid) for pid in (host, *children_of(host))]
        return len(found) == 2

    assert until(is_at_work)
    host, child = found

    caller.kill()
    caller.wait()

    assert until(lambda: not is_running(host) and not is_running(child))


def test_caller__that_forks__shares_no_host_with_its_parent():
    program = (
        "import os\n"
        "from retrieval.extraction.sandbox import Limits, run_limited\n"
        "def host():\n"
        "    task = 'tests.retrieval.hostile:name_the_host'\n"
        "    return run_limited(task, b'', {}, Limits()).output.decode()\n"
        "before = host()\n"
        "pid = os.fork()\n"
        "print(before if pid else 'child', host(), host(), flush=True)\n"
        "os.waitpid(pid, 0) if pid else os._exit(0)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, timeout=600, check=True, stdout=subprocess.PIPE
    )

    lines = sorted(line.split() for line in done.stdout.decode().splitlines())
    (before, *parent), (_, *child) = lines
    assert set(parent) == {before}
    assert len(set(child)) == 1
    assert set(child) != set(parent)


def test_callers__in_several_threads__get_their_own_text():
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda n: extract(b"text %d" % n, "text/plain"), range(60)))

    assert [t.segments[0].text for t in texts] == [f"text {n}" for n in range(60)]


def test_extraction__of_any_kind__leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    extract(documents.workbook({"A": [["x"]]}), XLSX)
    with pytest.raises(ExtractionFailed):
        extract(b"no archive", DOCX)

    assert list(tmp_path.iterdir()) == []


def test_extraction__of_the_same_bytes__is_always_the_same():
    content = documents.book({"a.xhtml": "<h1>One</h1>" + "<p>Some words.</p>" * 50})

    first = extract(content, "application/epub+zip")
    for pid in hosts():
        os.kill(pid, signal.SIGKILL)

    assert extract(content, "application/epub+zip") == first


@pytest.mark.parametrize(
    ("content", "limits", "code"),
    [
        (b"![[" * 60_000, Limits(cpu_seconds=1), "extraction.timed_out"),
        (b"![[" * 60_000, Limits(wall_seconds=0.3), "extraction.timed_out"),
        (b"word " * 5_000_000, Limits(memory=4 * MIB), "extraction.too_large"),
        (b"word " * 5_000, Limits(output=1000), "extraction.too_large"),
    ],
)
def test_document__that_takes_more_than_allowed__fails_with_a_sentence(content, limits, code):
    with pytest.raises(ExtractionFailed) as failure:
        extract(content, "text/markdown", limits=limits)

    assert failure.value.code == code
    assert failure.value.sentence.endswith(".")


def many_lines(line: str, size: int, head: str = "") -> bytes:
    return (head + line * (size // len(line))).encode()


@pytest.mark.parametrize(
    ("line", "head", "size"),
    [
        ("|1|2|\n", "|a|b|\n|-|-|\n", 600_000),
        (f"| 1 | {'some words ' * 8}|\n", "| a | b |\n|---|---|\n", 10_000_000),
        ("- a\n  - b\n", "", 600_000),
        (f"|{'b|' * 20_000}\n", f"|{'a|' * 20_000}\n|{'-|' * 20_000}\n", 500_000),
    ],
    ids=["short-rows", "rows", "items", "wide-rows"],
)
def test_markdown__of_one_long_table_or_list__is_read_within_the_limits(line, head, size):
    # Of memory and output; how long it takes is the machine's
    limits = Limits(cpu_seconds=900, wall_seconds=1000)
    segments = extract(many_lines(line, size, head), "text/markdown", limits=limits).segments

    assert sum(len(segment.text) for segment in segments) > size // 2


def test_document__that_takes_too_much_memory__is_told_how_much_it_may_take():
    with pytest.raises(ExtractionFailed) as failure:
        extract(b"word " * 5_000_000, "text/plain", limits=Limits(memory=4 * MIB))

    assert "more than the 4 MiB of memory" in failure.value.sentence
    assert "split it" in failure.value.sentence


PARAGRAPH = "<w:p><w:r><w:t>aaaaaaaaaaaaaaaaaaaa</w:t></w:r></w:p>"
DOCUMENT = '<w:document xmlns:w="urn:w"><w:body>'
LAUGHS = "".join(
    f'<!ENTITY {name} "{f"&{inner};" * 10}">'
    for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def word_bomb(head: str, repeated: str, times: int) -> bytes:
    return bomb("word/document.xml", head, repeated, times, **{"[Content_Types].xml": "<Types/>"})


def form_loop() -> bytes:
    return documents.raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R"
        b"/Resources<</XObject<</X 5 0 R>>>>>>",
        documents.pdf_stream(b"/X Do " * 100),
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>"
        b"/Length 12>>stream\n/X Do /X Do \nendstream",
    )


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "word-paragraphs": (lambda: word_bomb(DOCUMENT, PARAGRAPH, 4_000_000), DOCX),
    "word-one-text": (lambda: word_bomb(DOCUMENT + "<w:p><w:r><w:t>", "a", 100_000_000), DOCX),
    "word-one-table": (
        lambda: word_bomb(
            DOCUMENT + "<w:tbl>", f"<w:tr><w:tc>{PARAGRAPH}</w:tc></w:tr>", 1_000_000
        ),
        DOCX,
    ),
    "word-laughs": (
        lambda: word_bomb(
            f'<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa">{LAUGHS}]>{DOCUMENT}<w:p><w:r><w:t>', "&i;", 1000
        ),
        DOCX,
    ),
    "word-deep": (lambda: word_bomb(DOCUMENT, "<w:tbl><w:tr><w:tc>", 100_000), DOCX),
    "sheet": (
        lambda: documents.workbook({"A": [["some text in a cell"] * 20] * 60_000}),
        XLSX,
    ),
    "pdf-stream": (
        lambda: documents.raw_pdf(
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
            documents.pdf_stream(b" " * 300_000_000),
        ),
        "application/pdf",
    ),
    "pdf-form-loop": (form_loop, "application/pdf"),
    "html-deep": (lambda: b"<div>" * 200_000 + b"deep", "text/html"),
    "html-one-text": (lambda: b"<p>" + b"x" * 9_000_000, "text/html"),
    "book-one-text": (
        lambda: documents.book({"a.xhtml": "<p>" + "x" * 60_000_000}),
        "application/epub+zip",
    ),
    "rtf-pictures": (
        lambda: rb"{\rtf1 {\pict " + b"0f" * 10_000_000 + rb"}{\bin99999999 x}text}",
        "application/rtf",
    ),
    "mail-deep": (
        lambda: b"Subject: s\n" + b"Content-Type: message/rfc822\n\n" * 5000,
        "message/rfc822",
    ),
    "rtf-deep": (lambda: rb"{\rtf1 " + b"{" * 300_000 + b"x", "application/rtf"),
}


LARGE = ("word-one-table", "pdf-stream", "sheet")


@pytest.mark.parametrize("name", [name for name in BOMBS if name not in LARGE])
def test_bomb__of_any_kind__ends_soon_and_bounded(name):
    make, media_type = BOMBS[name]
    content = make()

    begun = time.monotonic()
    code, characters = "", 0
    try:
        characters = sum(len(segment.text) for segment in extract(content, media_type).segments)
    except ExtractionFailed as failure:
        code = failure.code

    assert code in {"", "extraction.too_large", "extraction.damaged"}
    assert characters < 30_000_000
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("name", LARGE)
def test_bomb__that_unfolds_in_memory__takes_less_than_three_hundred_megabytes(name):
    make, media_type = BOMBS[name]
    content = make()
    options = {"media_type": media_type, "ocr": None}

    begun = time.monotonic()
    outcome = run_limited("retrieval.extraction.reading:run", content, options, Limits())

    assert outcome.peak_memory < 320 * MIB
    assert time.monotonic() - begun < 60
    assert outcome.exit_code != 0 or b'"code"' in outcome.output
