import json

import pytest

from registry.errors import Invalid
from retrieval.chunking import STRATEGIES, Chunking


def _errors(value: object, max_tokens: int = 256) -> dict[str, tuple[object, object]]:
    with pytest.raises(Invalid) as caught:
        Chunking.from_json(value, max_tokens)
    assert caught.value.code == "chunking.invalid" or value is None or isinstance(value, list)
    return {error.field: (error.value, error.allowed) for error in caught.value.errors}


def test_chunking__nothing_given__a_knowledge_bases_defaults():
    assert Chunking.from_json({}, 256) == Chunking(strategy="recursive", size=200, overlap=20)
    assert Chunking.from_json({}, 256) == Chunking()


@pytest.mark.parametrize(
    ("given", "size", "overlap"),
    [
        ({"strategy": "document"}, 254, 0),
        ({"strategy": "page"}, 254, 20),
        ({"size": 50}, 50, 5),
        ({"size": 5}, 5, 0),
        ({"size": 254, "overlap": 253}, 254, 253),
        ({"size": 1}, 1, 0),
    ],
)
def test_chunking__part_given__the_rest_fits_it(given, size, overlap):
    chunking = Chunking.from_json(given, 256)

    assert (chunking.size, chunking.overlap) == (size, overlap)


def test_chunking__model_reads_less_than_the_default__default_is_what_it_reads():
    assert Chunking.from_json({}, 130).size == 128


@pytest.mark.parametrize(
    ("given", "field", "value", "allowed"),
    [
        ({"size": 0}, "chunking.size", 0, {"minimum": 1, "maximum": 254}),
        ({"size": 255}, "chunking.size", 255, {"minimum": 1, "maximum": 254}),
        ({"size": "200"}, "chunking.size", "200", {"minimum": 1, "maximum": 254}),
        ({"size": True}, "chunking.size", True, {"minimum": 1, "maximum": 254}),
        ({"size": 200.5}, "chunking.size", 200.5, {"minimum": 1, "maximum": 254}),
        ({"size": None}, "chunking.size", None, {"minimum": 1, "maximum": 254}),
        ({"overlap": -1}, "chunking.overlap", -1, {"minimum": 0, "maximum": 199}),
        ({"size": 50, "overlap": 50}, "chunking.overlap", 50, {"minimum": 0, "maximum": 49}),
        ({"strategy": "magic"}, "chunking.strategy", "magic", list(STRATEGIES)),
        ({"strategy": []}, "chunking.strategy", [], list(STRATEGIES)),
        ({"chunkSize": 5}, "chunking.chunkSize", 5, ["strategy", "size", "overlap"]),
        ([], "chunking", [], "object"),
        (None, "chunking", None, "object"),
    ],
)
def test_chunking__bad_value__names_field_value_and_allowed(given, field, value, allowed):
    assert _errors(given) == {field: (value, allowed)}


def test_chunking__several_mistakes__all_are_named():
    errors = _errors({"strategy": "x", "size": 0, "overlap": -1, "y": 1})

    assert set(errors) == {
        "chunking.strategy",
        "chunking.size",
        "chunking.overlap",
        "chunking.y",
    }


def test_chunking_recipe__read_back__the_same_chunking():
    chunking = Chunking(strategy="markdown", size=120, overlap=7)

    assert chunking.recipe == '{"overlap":7,"recipe":1,"size":120,"strategy":"markdown"}'
    assert Chunking.from_recipe(chunking.recipe) == chunking
    assert Chunking.from_json(chunking.as_json(), 256) == chunking


def test_chunking_recipe__of_another_version__refused():
    recipe = json.dumps({"recipe": 0, **Chunking().as_json()})

    with pytest.raises(ValueError, match="version 1"):
        Chunking.from_recipe(recipe)
