"""The bundled model: its vectors, its limits, and the same bits whatever is encoded with it."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings

from registry.errors import Unavailable
from retrieval.encoders import DEFAULT_MODEL, Encoder, encoder_for
from retrieval.encoders.bundled import BundledEncoder
from retrieval.encoders.graph import ensure_graph

TEXTS = [
    "How do I send a parcel back?",
    "",
    "You have 30 days to return an item.",
    "word " * 254,
    "统一的问题。答案是这样的",
    "👩‍👩‍👧‍👦 Ünïcödé ½",
    *(f"Number {number} of many. " * number for number in range(1, 25)),
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return encoder_for(DEFAULT_MODEL)


def test_encoder__passages__float32_of_unit_length(encoder):
    vectors = encoder.encode_passages(TEXTS)

    assert vectors.shape == (len(TEXTS), encoder.dimensions) == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6


def test_encoder__no_passages__no_vectors(encoder):
    assert encoder.encode_passages([]).shape == (0, 384)


def test_encoder__any_companions_order_and_threads__same_bits(encoder):
    alone = [encoder.encode_passages([text])[0] for text in TEXTS]

    together = encoder.encode_passages(TEXTS)
    backwards = encoder.encode_passages(TEXTS[::-1])[::-1]
    with ThreadPoolExecutor(4) as threads:
        at_once = list(threads.map(lambda text: encoder.encode_passages([text])[0], TEXTS))

    for other in (together, backwards, at_once, [encoder.encode_query(text) for text in TEXTS]):
        assert np.array_equal(np.stack(alone).view(np.uint32), np.stack(other).view(np.uint32))


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_encoder__several_threads_for_one_text__same_bits(encoder, threads):
    other = BundledEncoder(Path(settings.MODELS_DIR), threads=threads)

    for text in TEXTS:
        assert np.array_equal(encoder.encode_query(text), other.encode_query(text))


# What a process of its own prints: its vectors, and which heavy libraries it has loaded.
_PROGRAM = """
import json, sys
import django
django.setup()
from retrieval.encoders import DEFAULT_MODEL, encoder_for
encoder = encoder_for(DEFAULT_MODEL)
vectors = encoder.encode_passages(json.load(sys.stdin))
heavy = {"torch", "transformers", "sentence_transformers", "onnx"} & set(sys.modules)
print(json.dumps([vectors.tobytes().hex(), encoder.fingerprint, sorted(heavy)]))
"""


def _in_a_process(models_dir: object) -> subprocess.Popen[str]:
    program = (
        "from django.conf import settings; "
        f"settings.configure(MODELS_DIR={str(models_dir)!r}, QUESTION_THREADS=1)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program + _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=settings.BASE_DIR,
    )


def test_encoder__another_process__same_bits_and_no_torch(encoder):
    printed, _ = _in_a_process(settings.MODELS_DIR).communicate(json.dumps(TEXTS))

    bits, fingerprint, heavy = json.loads(printed)
    assert bits == encoder.encode_passages(TEXTS).tobytes().hex()
    assert fingerprint == encoder.fingerprint
    assert heavy == []


def test_encoder__several_processes_without_a_graph__one_exports_and_all_agree(encoder, tmp_path):
    processes = [_in_a_process(tmp_path / "models") for _ in range(3)]
    printed = [process.communicate(json.dumps(TEXTS[:3]))[0] for process in processes]

    expected = encoder.encode_passages(TEXTS[:3]).tobytes().hex()
    for line in printed:
        bits, fingerprint, heavy = json.loads(line)
        assert (bits, fingerprint, heavy) == (expected, encoder.fingerprint, [])
    assert [path.name for path in (tmp_path / "models").glob("*export-*")] == []


def test_encoder__question_and_answers__the_right_one_is_closest(encoder):
    answers = encoder.encode_passages(
        [
            "You have 30 days to request a return from the date you receive it.",
            "Prices in our shop include VAT for customers in the EU.",
            "The board is powered through its USB port.",
        ]
    )

    scores = answers @ encoder.encode_query("How long do I have to send something back?")

    assert scores.argmax() == 0
    assert scores[0] > 0.4


def test_encoder__fingerprint__is_the_models_identity(encoder):
    """A new one disables every published version: weights, tokenizer or arithmetic changed."""
    assert encoder.fingerprint == (
        "sha256:1740279d6753429761398ff2566bd74ef0be050a7ea0a15a9be482fae3be9ab7"
    )
    assert encoder.identity()["maxTokens"] == encoder.max_tokens == 256


def test_encoder__provenance__names_the_runtime_graph_and_processor(encoder):
    for part in ("onnxruntime-", "tokenizers-", "numpy-", "graph sha256:", " on "):
        assert part in encoder.provenance
        assert part not in json.dumps(encoder.identity())


def test_passage__longer_than_the_model_reads__refused(encoder):
    with pytest.raises(ValueError, match="passage 1 has 255 tokens; all-MiniLM-L6-v2 takes 254"):
        encoder.encode_passages(["fits", "word " * 255])


def test_passage__over_128_tokens__its_end_counts(encoder):
    vectors = encoder.encode_passages(["word " * 200 + "apple", "word " * 200 + "train"])

    assert not np.array_equal(vectors[0], vectors[1])


def test_query__longer_than_the_model_reads__cut_and_told(encoder):
    longest = "word " * 254

    assert encoder.query_tokens(longest) == encoder.max_tokens
    assert encoder.query_tokens(longest + "apple") == encoder.max_tokens + 1
    assert np.array_equal(encoder.encode_query(longest), encoder.encode_query(longest + "apple"))


def test_token_offsets__text_of_all_kinds__code_points_of_what_they_name(encoder):
    text = "Größe: 👩‍👩‍👧‍👦 统一 e\u0301 [CLS] unbelievably"

    offsets = encoder.token_offsets(text)

    named = [text[start:end] for start, end in offsets]
    assert "".join(named).startswith("Größe:")
    assert {"统", "一", "[CLS]"} <= set(named)
    assert "".join(named).endswith("unbelievably")
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert offsets == sorted(offsets)


def test_token_offsets__long_text__nothing_cut_off(encoder):
    assert len(encoder.token_offsets("word " * 5000)) == 5000


def test_encoder_for__asked_twice__one_instance(encoder):
    assert encoder_for(DEFAULT_MODEL) is encoder


def test_encoder_for__models_folder_that_cannot_be_written__named_as_not_available(
    tmp_path,
):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(Unavailable, match="all-MiniLM-L6-v2") as caught:
        ensure_graph(tmp_path / "file")

    assert caught.value.code == "model.not_available"
