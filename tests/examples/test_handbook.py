"""The handbook is what its README promises: varied, in four formats, different by region."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from agents.expressions import parse_expression, parse_variables
from examples.handbook.build import build
from tests.examples import handbook

QUESTIONS = handbook.questions()


def sentences(text: str) -> set[str]:
    """Normalised sentences, list items and table cells of more than three words."""
    pieces = re.split(r"(?<=[.!?:])\s|[\n|]", text)
    words = (re.findall(r"\w+", piece.lower()) for piece in pieces)
    return {" ".join(sentence) for sentence in words if len(sentence) > 3}


def test_documents__counted__fill_every_region_and_format() -> None:
    names = handbook.documents()
    regions = Counter(name.split("/")[0] for name in names)
    formats = Counter(Path(name).suffix for name in names)
    assert len(names) >= 44
    assert min(regions[region] for region in ("eu", "uk", "us", "global")) >= 10
    assert formats[".html"] >= 5
    assert formats[".docx"] >= 4
    assert formats[".pdf"] >= 4
    assert formats[".md"] > len(names) / 2


def test_documents__extracted__have_the_length_of_a_page_that_people_read() -> None:
    lengths = {name: len(re.findall(r"\w+", handbook.text(name))) for name in handbook.documents()}
    assert {name: n for name, n in lengths.items() if not 250 <= n <= 900} == {}


def test_documents__any_two_of_them__share_few_sentences() -> None:
    told = {
        name: set().union(*(sentences(segment.text) for segment in segments))
        for name, segments in handbook.documents().items()
    }
    shared = {
        (a, b): len(told[a] & told[b]) / min(len(told[a]), len(told[b]))
        for a, b in combinations(told, 2)
    }
    assert {pair: share for pair, share in shared.items() if share > 0.3} == {}


def test_documents__extracted__know_their_sections_and_pages() -> None:
    for name, segments in handbook.documents().items():
        assert len({segment.section for segment in segments}) >= 4, name
        if name.endswith(".pdf"):
            assert {segment.page for segment in segments} >= {1, 2, 3}, name


def test_built_documents__built_again__say_what_the_committed_ones_say(tmp_path: Path) -> None:
    written = build(tmp_path)
    assert len(written) == len(list((handbook.FOLDER / "sources").rglob("*.md")))
    for path in written:
        name = str(path.relative_to(tmp_path))
        assert handbook.segments(path) == handbook.documents()[name], f"{name}: run build.py"


def test_manifest__read__refers_to_what_exists() -> None:
    bases = {base["key"]: base for base in handbook.manifest()["knowledgeBases"]}
    assert all((handbook.FOLDER / base["folder"]).is_dir() for base in bases.values())
    for agent in handbook.manifest()["agents"]:
        variables = parse_variables(agent["draft"]["contextVariables"])
        for binding in agent["draft"]["bindings"]:
            assert binding["knowledgeBase"] in bases
            if binding["expression"] is not None:
                parse_expression(binding["expression"], variables)
        tools = agent["draft"]["tools"]
        assert {tool["knowledgeBase"] for tool in tools if tool["type"] == "rag"} == set(bases)
        assert len({tool["name"] for tool in tools}) == len(tools)


@pytest.mark.parametrize("region", ["EU", "UK", "US"])
def test_bindings__evaluated_for_a_region__apply_to_it_and_to_the_global_rules(region: str) -> None:
    draft = handbook.manifest()["agents"][0]["draft"]
    variables = parse_variables(draft["contextVariables"])
    applying = [
        binding["knowledgeBase"]
        for binding in draft["bindings"]
        if binding["enabled"]
        and (
            binding["expression"] is None
            or parse_expression(binding["expression"], variables)
            .evaluate({"region": region})
            .applies
        )
    ]
    assert applying == [region.lower(), "global"]


def test_questions__each_of_them__has_its_phrase_in_one_passage_of_its_document() -> None:
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS) >= 30
    for question in QUESTIONS:
        passages = handbook.documents()[question["document"]]
        found = [p for p in passages if question["phrase"] in handbook.flat(p.text)]
        assert len(found) == 1, f"{question['id']}: {len(found)} passages"
        assert question["document"].split("/")[0] in {
            "global",
            question["context"]["region"].lower(),
        }


def test_questions__asked_for_several_regions__have_another_answer_in_each() -> None:
    asked = Counter(question["question"] for question in QUESTIONS)
    for text, times in asked.items():
        same = [question for question in QUESTIONS if question["question"] == text]
        assert len({question["document"] for question in same}) == times
        assert len({json.dumps(question["context"]) for question in same}) == times
    assert sum(times for times in asked.values() if times > 1) >= 12


def test_questions__compared_with_their_passages__are_not_copied_from_them() -> None:
    for question in QUESTIONS:
        words = re.findall(r"\w+", question["question"].lower())
        answer = " ".join(re.findall(r"\w+", handbook.text(question["document"]).lower()))
        runs = (" ".join(words[at : at + 6]) for at in range(len(words) - 5))
        assert not [run for run in runs if run in answer], question["id"]
