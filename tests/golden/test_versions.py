"""A fixed configuration over fixed snapshots: its manifest and digest; fixed expressions: decisions.

Belongs to ``agents.manifest.SCHEMA`` and ``agents.expressions.SEMANTICS``.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from agents.answers import resolve
from agents.configuration import BindingValues, Configuration, ToolValues
from agents.expressions import SEMANTICS, parse_expression, parse_variables
from agents.manifest import SCHEMA, build_manifest
from agents.versions import Runnable, parsed_bindings
from registry.canonical import digest_json
from retrieval.models import EmbeddingModel, IndexSnapshot
from retrieval.search import Target
from retrieval.search_settings import SearchSettings
from tests.builders import ACCESS

BASES = [uuid.UUID(int=1), uuid.UUID(int=2)]
VARIABLES: list[Any] = [
    {"name": "region", "type": "string", "values": ["EU", "UK"], "required": True},
    {"name": "customer.tier", "type": "string", "sensitive": True},
    {"name": "basket", "type": "number"},
]
MANIFEST = (
    '{"bindings":[{"enabled":true,"expression":"region == \'EU\'","instruction":"Use it fir'
    'st.","knowledgeBase":"00000000-0000-0000-0000-000000000002","label":"EU"},{"enabled"'
    ':false,"expression":null,"instruction":"","knowledgeBase":"00000000-0000-0000-0000-0'
    '00000000001","label":"Always"}],"contextVariables":"[{\\"name\\":\\"region\\",\\"type\\":\\'
    '"string\\",\\"values\\":[\\"EU\\",\\"UK\\"],\\"required\\":true},{\\"name\\":\\"customer.tier\\",'
    '\\"type\\":\\"string\\",\\"sensitive\\":true},{\\"name\\":\\"basket\\",\\"type\\":\\"number\\"}]",'
    '"expressionSemantics":1,"knowledgeBases":[{"embeddingModel":{"fingerprint":"sha256:e'
    'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","name":"golden"},"i'
    'd":"00000000-0000-0000-0000-000000000001","name":"Base 0","rankingRecipe":{"diversit'
    'y":null,"floor":"on-returned-confidence/1","fusion":null,"reranker":null,"score":"co'
    'sine-f64-index-order-round6/1"},"settings":{"defaultTopK":5,"maxContextLength":null,'
    '"rerankEnabled":false,"settingsMode":"recorded","similarityThreshold":null},"snapsho'
    'tDigest":"sha256:0000000000000000000000000000000000000000000000000000000000000000"},'
    '{"embeddingModel":{"fingerprint":"sha256:eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee'
    'eeeeeeeeeeeeeeeeeeeee","name":"golden"},"id":"00000000-0000-0000-0000-000000000002",'
    '"name":"Base 1","rankingRecipe":{"diversity":null,"floor":"on-returned-confidence/1"'
    ',"fusion":null,"reranker":null,"score":"cosine-f64-index-order-round6/1"},"settings"'
    ':{"defaultTopK":5,"maxContextLength":null,"rerankEnabled":false,"settingsMode":"reco'
    'rded","similarityThreshold":0.25},"snapshotDigest":"sha256:1111111111111111111111111'
    '111111111111111111111111111111111111111"}],"model":"some-model","parameters":"{\\"z\\"'
    ':1.0,\\"a\\":[true,null,\\"ä\\"]}","prompt":"Answer – from the passages.\\n","schema":1,"'
    'tools":[{"description":"Search.","knowledgeBase":"00000000-0000-0000-0000-0000000000'
    '01","name":"search","type":"rag"},{"description":"Open a ticket.","name":"open_ticke'
    't","parameters":"{\\"type\\":\\"object\\",\\"properties\\":{\\"z\\":{},\\"a\\":{}}}","type":"f'
    'unction"}]}'
)
DIGEST = "sha256:a5e3321d5d1f3446433e28581ef87b6a07db382bfd2a19b806e160f38d6098ef"
DECISIONS = "sha256:b6f276e3145f840e66a8426646d01cd1f55035b105ebfbaf231b0351be9ee40b"
REASONS = [
    "MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE",
    "TRUE FALSE FALSE FALSE TRUE TRUE TRUE TRUE TRUE",
    "FALSE TRUE TRUE TRUE TRUE TRUE TRUE FALSE TRUE",
    "VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED",
    "VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED TRUE VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED",
    "VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED VALUE_NOT_ALLOWED FALSE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE VALUE_NOT_ALLOWED FALSE",
    "MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE",
    "TRUE FALSE FALSE FALSE TRUE TRUE TRUE TRUE TRUE TYPE_MISMATCH",
    "FALSE TRUE TRUE TRUE TRUE TRUE TRUE FALSE TRUE TYPE_MISMATCH",
    "FALSE TRUE TRUE FALSE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE FALSE TYPE_MISMATCH FALSE",
    "FALSE TRUE TRUE FALSE TYPE_MISMATCH TRUE TYPE_MISMATCH TYPE_MISMATCH TYPE_MISMATCH TYPE_MISMATCH",
    "FALSE TRUE TRUE FALSE MISSING_VARIABLE MISSING_VARIABLE MISSING_VARIABLE TRUE FALSE TYPE_MISMATCH",
]
ETAGS = [
    "sha256:cf4d1fce121a5aa60c259b25d574129aa9151e3ebf97be95d1c2673fc7219343",
    "sha256:09f3a207877ae1a106cd9d0af5537fb8889601b3509514b4948cdae00122624d",
    "sha256:ba7f202f34fb26287ee85bd25ca7456ed0a96a6178169af0159e925dacecd9ed",
]


def _configuration() -> Configuration:
    return Configuration(
        prompt="Answer – from the passages.\n",
        model="some-model",
        parameters={"z": 1.0, "a": [True, None, "ä"]},
        context_variables=VARIABLES,
        bindings=(
            BindingValues(
                id=uuid.UUID(int=11),
                knowledge_base=BASES[1],
                expression="region == 'EU'",
                label="EU",
                instruction="Use it first.",
                enabled=True,
            ),
            BindingValues(
                id=uuid.UUID(int=12),
                knowledge_base=BASES[0],
                expression=None,
                label="Always",
                instruction="",
                enabled=False,
            ),
        ),
        tools=(
            ToolValues(
                id=uuid.UUID(int=21),
                type="rag",
                name="search",
                description="Search.",
                knowledge_base=BASES[0],
            ),
            ToolValues(
                id=uuid.UUID(int=22),
                type="function",
                name="open_ticket",
                description="Open a ticket.",
                parameters={"type": "object", "properties": {"z": {}, "a": {}}},
            ),
        ),
    )


def _target(number: int) -> Target:
    return Target(
        knowledge_base_id=BASES[number],
        name=f"Base {number}",
        snapshot=IndexSnapshot(
            number=7,
            digest="sha256:" + str(number) * 64,
            model=EmbeddingModel(name="golden", fingerprint="sha256:" + "e" * 64),
        ),
        settings=SearchSettings(similarity_threshold=0.25 if number else None),
        published=False,
    )


def test_manifest__of_a_fixed_configuration__is_this_to_the_letter() -> None:
    manifest = build_manifest(
        _configuration(), {base: _target(number) for number, base in enumerate(BASES)}
    )

    assert SCHEMA == 1
    assert manifest.text == MANIFEST
    assert manifest.digest == DIGEST


EXPRESSIONS = [
    "region == 'EU'",
    "region != 'EU'",
    "not region == 'EU'",
    "region in ['EU', 'UK'] and basket > 10",
    "basket > 10 or customer.tier == 'gold'",
    "customer.tier == None or has('customer.tier')",
    "not (basket < 5 and customer.tier != 'gold')",
    "startswith(lower(region), 'e')",
    "10 <= basket <= 20",
    "basket == '10'",
]
CONTEXTS: list[Any] = [
    {},
    {"region": "EU", "basket": 10, "customer": {"tier": "gold"}},
    {"region": "UK", "basket": 10.5, "customer": {"tier": None}},
    {"region": "FR", "basket": "12", "customer": "nobody"},
    {"region": None, "basket": True, "customer": {"tier": 5}},
    {"region": "eu", "basket": -1},
]


def test_decisions__of_fixed_expressions_and_contexts__are_these() -> None:
    variables = parse_variables(VARIABLES)
    declared = [parse_expression(text, variables) for text in EXPRESSIONS[:-1]]
    free = [parse_expression(text) for text in EXPRESSIONS]
    reasons = [
        " ".join(one.evaluate(context).reason for one in expressions)
        for expressions in (declared, free)
        for context in CONTEXTS
    ]
    whole = [
        [decision.applies, decision.reason, decision.detail, [list(p) for p in decision.parts]]
        for expressions in (declared, free)
        for context in CONTEXTS
        for decision in (one.evaluate(context) for one in expressions)
    ]

    assert SEMANTICS == 1
    assert reasons == REASONS
    assert digest_json(whole) == DECISIONS, json.dumps(whole, ensure_ascii=False)


def test_resolution__of_a_fixed_version_and_context__has_this_etag() -> None:
    configuration = _configuration()
    version = Runnable(
        slug="golden",
        number=3,
        revision=7,
        digest=DIGEST,
        configuration=configuration,
        variables=configuration.variables,
        bindings=parsed_bindings(configuration),
        targets={},
        names={base: f"Base {number}" for number, base in enumerate(BASES)},
    )

    etags = [
        resolve(version=version, context=context, access=ACCESS, trace=False)["etag"]
        for context in CONTEXTS[:3]
    ]

    assert etags == ETAGS
