"""Models other than the bundled one: by folder or from the local cache, never from the network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from registry.errors import Unavailable
from retrieval.encoders import DEFAULT_MODEL, Encoder, encoder_for
from retrieval.encoders.graph import bundled_model_dir

TEXTS = ["How do I send a parcel back?", "", "Größe 统一 " * 20, "Some words. " * 60]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers folder: the bundled weights under another name, with prompts."""
    path = tmp_path_factory.mktemp("models") / "house-model"
    shutil.copytree(bundled_model_dir(), path)
    configuration = path / "config_sentence_transformers.json"
    value = json.loads(configuration.read_text())
    value["prompts"] = {"query": "query: ", "document": "passage: "}
    configuration.write_text(json.dumps(value))
    return path


@pytest.fixture(scope="module")
def named(folder: Path) -> Encoder:
    return encoder_for(str(folder))


def test_named_encoder__folder__agrees_with_the_bundled_runtime(named):
    bundled = encoder_for(DEFAULT_MODEL)

    mine = named.encode_passages(TEXTS)
    other = bundled.encode_passages([f"passage: {text}" for text in TEXTS])

    assert mine.dtype == np.float32
    assert mine.shape == other.shape
    assert np.abs((mine * other).sum(axis=1) - 1).max() < 1e-5


def test_named_encoder__prompts__differ_for_question_and_passage(named):
    question, passage = named.encode_query("parcel"), named.encode_passages(["parcel"])[0]

    assert not np.allclose(question, passage, atol=1e-3)


def test_named_encoder__companions__same_bits(named):
    alone = np.concatenate([named.encode_passages([text]) for text in TEXTS])

    assert np.array_equal(alone, named.encode_passages(TEXTS))


def test_named_encoder__prompts__leave_less_room_for_text(named):
    assert named.max_tokens == 256 - 2

    named.encode_passages(["word " * 252])
    with pytest.raises(ValueError, match="253 tokens"):
        named.encode_passages(["word " * 253])


def test_named_encoder__long_question__cut_and_told(named):
    longest = "word " * 252

    assert named.query_tokens(longest) == named.max_tokens
    assert named.query_tokens(longest + "apple") > named.max_tokens
    assert np.array_equal(named.encode_query(longest), named.encode_query(longest + "apple"))


def test_named_encoder__token_offsets__those_of_the_text_alone(named):
    text = "Größe " * 400

    assert named.token_offsets(text) == encoder_for(DEFAULT_MODEL).token_offsets(text)


def test_named_encoder__another_file_that_decides__another_fingerprint(named, folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "README.md").write_text("Something else")
    same = encoder_for(str(other))
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    (changed / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')

    assert same.fingerprint == named.fingerprint
    assert encoder_for(str(changed)).fingerprint != named.fingerprint
    assert named.fingerprint != encoder_for(DEFAULT_MODEL).fingerprint
    assert "sentence-transformers-" in named.provenance


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "/no/such/folder", ""])
def test_encoder_for__model_that_is_not_here__named_and_never_downloaded(name):
    with pytest.raises(Unavailable) as caught:
        encoder_for(name)

    assert caught.value.code == "model.not_available"
    assert repr(name) in caught.value.detail
    assert caught.value.data == {"model": name}


@pytest.mark.parametrize("damage", ["model.safetensors", "config.json", "tokenizer.json"])
def test_encoder_for__folder_with_a_damaged_file__named(folder, tmp_path, damage):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / damage).write_bytes(b"not this")

    with pytest.raises(Unavailable, match="cannot be loaded") as caught:
        encoder_for(str(broken))

    assert caught.value.code == "model.not_available"
