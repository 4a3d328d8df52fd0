"""The processes that benchmarks/indexing.py compares; each says ``ready`` and waits for a line.

``pipeline BASE``: a worker that indexes a knowledge base. ``bare FILE FROM STEP``: onnxruntime
alone over every STEP-th of the chunks in FILE. ``plain FILE``: sentence-transformers with its
defaults over all of them. Each answers with ``{"cpu", "peak"}``: seconds of processor time, those
of its own children included, and bytes.
"""

from __future__ import annotations

import atexit
import json
import resource
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import django


def main() -> None:
    role, *arguments = sys.argv[1:]
    roles: dict[str, Callable[..., Callable[[], object]]] = {
        "pipeline": _pipeline,
        "bare": _bare,
        "plain": _plain,
    }
    work = roles[role](*arguments)
    print("ready", flush=True)
    sys.stdin.readline()
    before = _cpu()
    work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print("done", flush=True)
    atexit._run_exitfuncs()  # what reads documents ends, and its time is known
    print(json.dumps({"cpu": _cpu() - before, "peak": peak}), flush=True)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _pipeline(base_id: str) -> Callable[[], object]:
    django.setup()
    from retrieval.encoders import DEFAULT_MODEL, encoder_for
    from retrieval.turns import take_turn

    encoder_for(DEFAULT_MODEL).encode_passages(["Loaded."])
    return lambda: take_turn(uuid.UUID(base_id), seconds=float("inf"))


def _bare(file: str, start: str, step: str) -> Callable[[], object]:
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    django.setup()
    from django.conf import settings

    from retrieval.encoders.graph import bundled_model_dir, ensure_graph

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(ensure_graph(Path(settings.MODELS_DIR)).path),
        options,
        providers=["CPUExecutionProvider"],
    )
    tokenizer = Tokenizer.from_file(str(bundled_model_dir() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = json.loads(Path(file).read_text())[int(start) :: int(step)]

    def work() -> None:
        for text in texts:
            ids = tokenizer.encode(text).ids
            session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0][0].mean(axis=0)

    return work


def _plain(file: str) -> Callable[[], object]:
    from sentence_transformers import SentenceTransformer

    django.setup()
    from retrieval.encoders.graph import bundled_model_dir

    model = SentenceTransformer(str(bundled_model_dir()))
    model.encode(["Loaded."])
    texts = json.loads(Path(file).read_text())
    return lambda: model.encode(texts)


if __name__ == "__main__":
    main()
