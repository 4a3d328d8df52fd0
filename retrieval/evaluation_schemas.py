"""The JSON Schemas of evaluation sets and evaluations, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from registry.openapi import (
    ANY_OBJECT,
    CONFIDENCE,
    COUNT,
    DIGEST,
    INTEGER,
    NUMBER,
    STRING,
    TIME,
    UUID,
    array,
    components,
    nullable,
    one_of,
    record,
    ref,
    request,
)
from retrieval.evaluation import MOST_SNAPSHOTS
from retrieval.evaluation_questions import MOST_QUESTIONS
from retrieval.evaluation_reading import LARGEST_GRADE, MOST_DOCUMENTS
from retrieval.measures import NAMES
from retrieval.questions import MAX_QUERY_CHARACTERS
from retrieval.rankings import RANKINGS

Schema = dict[str, Any]

_PAGES: Schema = {
    "type": ["array", "null"],
    "items": {"type": "integer", "minimum": 1},
    "description": "Null: any page. Not looked at where extraction captured no pages.",
}
_GRADE: Schema = {"type": "integer", "minimum": 1, "maximum": LARGEST_GRADE, "default": 1}
_QUERY: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARACTERS}
_WANTED: Schema = {
    "oneOf": [
        {"type": "string", "description": "A document's name."},
        request(
            {"document": UUID, "name": STRING, "pages": _PAGES, "grade": _GRADE},
            optional=["document", "name", "pages", "grade"],
            about="With `document`, its id, or `name`; the id counts where it is known.",
        ),
    ]
}
_WANTED_LIST: Schema = {
    "type": "array",
    "maxItems": MOST_DOCUMENTS,
    "items": _WANTED,
    "description": "Empty: no document answers the question.",
}
_DOCUMENT = record({"document": UUID, "name": STRING, "pages": _PAGES, "grade": INTEGER})
_MEASURES = record(
    {name: {"type": ["number", "null"], "minimum": 0, "maximum": 1} for name in NAMES}
)
_DIFFERENCE = record({name: nullable(NUMBER) for name in NAMES})
_SIDE = record({"snapshot": INTEGER, "ranking": one_of(*RANKINGS)})
_PLACE: Schema = {
    "type": ["integer", "null"],
    "minimum": 1,
    "description": "Its place among documents, null where it is not among the first 25.",
}
_CHANGED = record(
    {
        "count": COUNT,
        "questions": array(
            record(
                {
                    "question": UUID,
                    "query": STRING,
                    "difference": {**NUMBER, "description": "Of nDCG@10."},
                    "documents": array(record({"name": STRING, "before": _PLACE, "after": _PLACE})),
                }
            )
        ),
    },
    about="The questions that changed most, at most 100; `outcomes` has all.",
)
_EVALUATION: dict[str, Schema] = {
    "id": UUID,
    "state": one_of("running", "done", "failed"),
    "detail": nullable(STRING),
    "questions": record({"count": COUNT, "digest": DIGEST}),
    "progress": record({"asked": COUNT, "of": COUNT}),
    "scores": array(ref("EvaluationScore")),
    "startedBy": STRING,
    "createdAt": TIME,
    "endedAt": nullable(TIME),
}

components(
    EvaluationQuestion=record(
        {"id": UUID, "query": STRING, "documents": array(_DOCUMENT), "createdAt": TIME}
    ),
    EvaluationQuestionWrite=request({"query": _QUERY, "documents": _WANTED_LIST}),
    EvaluationQuestionsAdd=request(
        {
            "query": _QUERY,
            "documents": _WANTED_LIST,
            "questions": {
                "type": "array",
                "maxItems": MOST_QUESTIONS,
                "items": ref("EvaluationQuestionWrite"),
            },
        },
        optional=["query", "documents", "questions"],
        about="Either `query` and `documents`, or `questions`.",
    ),
    EvaluationQuestions=request(
        {
            "questions": {
                "type": "array",
                "maxItems": MOST_QUESTIONS,
                "items": ref("EvaluationQuestionWrite"),
            }
        }
    ),
    EvaluationQuestionsWritten=record(
        {"created": COUNT, "updated": COUNT, "unchanged": COUNT, "deleted": COUNT}
    ),
    EvaluationStart=request(
        {
            "snapshots": {
                "type": ["array", "null"],
                "items": {"type": "integer", "minimum": 1},
                "minItems": 1,
                "maxItems": MOST_SNAPSHOTS,
                "description": "Numbers; absent: the current one. The first is what the others "
                "are compared with.",
            },
            "rankings": {
                "type": ["array", "null"],
                "items": one_of(*RANKINGS),
                "minItems": 1,
                "description": "Absent: the one that the settings ask for.",
            },
        },
        optional=["snapshots", "rankings"],
    ),
    EvaluationScore=record(
        {
            "snapshot": record(
                {"number": INTEGER, "digest": DIGEST, "documents": COUNT, "chunks": COUNT}
            ),
            "ranking": one_of(*RANKINGS),
            "rankingRecipe": ANY_OBJECT,
            "settings": ref("Settings"),
            "embeddingModel": record({"name": STRING, "fingerprint": DIGEST}),
            "chunking": record({"strategy": STRING, "size": INTEGER, "overlap": INTEGER}),
            "measures": nullable(_MEASURES),
            "measuredQuestions": {
                "type": ["integer", "null"],
                "description": "Those that some document should answer.",
            },
            "missingDocuments": {
                "type": ["integer", "null"],
                "description": "Documents of questions that the snapshot does not have; each "
                "counts as not found.",
            },
            "withoutAnswer": nullable(
                record(
                    {"questions": COUNT, "answered": COUNT},
                    about="Questions that no document answers, and of how many passages would "
                    "be returned all the same, by the settings' count and floor.",
                )
            ),
        },
        about="Null while not all questions have been asked.",
    ),
    Evaluation=record(_EVALUATION),
    EvaluationDetail=record(
        {
            **_EVALUATION,
            "comparisons": array(
                record(
                    {
                        "from": _SIDE,
                        "to": _SIDE,
                        "difference": _DIFFERENCE,
                        "gains": _CHANGED,
                        "losses": _CHANGED,
                        "unchanged": COUNT,
                        "chance": {
                            **CONFIDENCE,
                            "description": "The sign test: how likely so uneven a split of "
                            "gains and losses is if neither is better.",
                        },
                    }
                )
            ),
        }
    ),
    EvaluationOutcome=record(
        {
            "question": UUID,
            "query": STRING,
            "documents": array(_DOCUMENT),
            "outcomes": array(
                record(
                    {
                        "snapshot": INTEGER,
                        "ranking": one_of(*RANKINGS),
                        "places": array(_PLACE),
                        "missing": array(STRING),
                        "best": nullable(CONFIDENCE),
                        "returned": COUNT,
                        "measures": nullable(_MEASURES),
                    }
                )
            ),
        }
    ),
)
