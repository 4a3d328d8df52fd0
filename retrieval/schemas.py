"""The JSON Schemas of retrieval's requests and answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from registry.openapi import (
    ANY,
    ANY_OBJECT,
    BOOLEAN,
    CONFIDENCE,
    COUNT,
    DIGEST,
    INTEGER,
    NUMBER,
    STRING,
    TIME,
    UUID,
    array,
    changes,
    components,
    nullable,
    one_of,
    record,
    ref,
    request,
)
from retrieval.questions import MAX_QUERY_CHARACTERS

Schema = dict[str, Any]

_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_TOP_K: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 50,
    "description": "How many at most; never more than 25 are returned.",
}
_THRESHOLD: Schema = {
    "type": ["number", "null"],
    "minimum": 0,
    "maximum": 1,
}
_SETTINGS: dict[str, Schema] = {
    "defaultTopK": {**_TOP_K, "default": 5},
    "similarityThreshold": _THRESHOLD,
    "maxContextLength": {
        "type": ["integer", "null"],
        "minimum": 500,
        "maximum": 16000,
        "description": "In characters.",
    },
    "rerankEnabled": BOOLEAN,
    "diversityEnabled": {
        "type": "boolean",
        "description": "Passages that repeat one ranked before them are left out.",
    },
    "settingsMode": {
        "enum": ["recorded", "applied"],
        "description": "In `recorded`, only `defaultTopK` acts; in `applied` all of them do.",
    },
}
_FAILURE_POLICY: Schema = {
    "enum": ["becomeCurrent", "holdBack"],
    "default": "becomeCurrent",
    "description": "What becomes of a build in which documents failed: its snapshot becomes "
    "current, with the last readable revisions of these documents; or it is held back, ends "
    "`failed`, and the current one goes on being searched.",
}
_CHUNKING = request(
    {
        "strategy": STRING,
        "size": {"type": "integer", "minimum": 1, "description": "In tokens of the model."},
        "overlap": {"type": "integer", "minimum": 0, "description": "In tokens of the model."},
    },
    optional=["strategy", "size", "overlap"],
)

# What every question to knowledge takes.
QUESTION: dict[str, Schema] = {
    "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_CHARACTERS},
    "topK": nullable(_TOP_K),
    "confidenceThreshold": {
        **_THRESHOLD,
        "description": "The floor; 0 means none, null or absent the default of 0.3.",
    },
}
QUESTION_OPTIONAL = ["topK", "confidenceThreshold"]

# What every answer from one knowledge base has.
RETRIEVAL_OPTIONAL = ["dropped", "purged"]
RETRIEVAL: dict[str, Schema] = {
    "results": array(ref("Passage")),
    "knowledgeBase": ref("KnowledgeBaseName"),
    "snapshot": record({"number": INTEGER, "digest": DIGEST}),
    "applied": {
        "type": "object",
        "additionalProperties": ref("Applied"),
        "description": "Every rule that was looked at: its value, and where it comes from.",
    },
    "belowThreshold": record(
        {"count": COUNT, "best": nullable(NUMBER)},
        about="Of the topK best: how many were under the floor, and the best of those.",
    ),
    "dropped": record(
        {"nearDuplicates": COUNT, "maxContextLength": COUNT},
        about="What diversity and maxContextLength left out; absent in mode `recorded`.",
    ),
    "purged": record({"documents": COUNT}, about="Absent where nothing was purged."),
    "receipt": {**DIGEST, "description": "Equal receipts, equal results."},
}
_PASSAGE: dict[str, Schema] = {
    "passage": STRING,
    "document": record({"id": UUID, "name": STRING, "revision": INTEGER}),
    "page": nullable(INTEGER),
    "section": nullable(STRING),
    "metadata": ANY_OBJECT,
    "confidence": CONFIDENCE,
    "truncated": BOOLEAN,
    "rerankScore": {**NUMBER, "description": "Gives the order; absent without reranking."},
    "chunk": DIGEST,
}
_SNAPSHOT_IN_SHORT: dict[str, Schema] = {
    "number": INTEGER,
    "digest": nullable(DIGEST),
    "state": one_of("building", "ready", "failed", "cancelled", "unchanged"),
    "documents": COUNT,
    "chunks": COUNT,
}
components(
    KnowledgeBaseName=record({"id": UUID, "name": STRING}),
    Chunking=_CHUNKING,
    SettingsChange=changes(_SETTINGS, about="Merged over what is set."),
    Settings=record(_SETTINGS),
    KnowledgeBaseCreate=request(
        {
            "name": _NAME,
            "embeddingModel": STRING,
            "chunking": nullable(ref("Chunking")),
            "settings": nullable(ref("SettingsChange")),
            "failurePolicy": _FAILURE_POLICY,
        },
        optional=["embeddingModel", "chunking", "settings", "failurePolicy"],
    ),
    KnowledgeBaseChange=changes(
        {
            "name": _NAME,
            "embeddingModel": STRING,
            "chunking": nullable(ref("Chunking")),
            "settings": nullable(ref("SettingsChange")),
            "failurePolicy": _FAILURE_POLICY,
        },
        about="Settings merge, chunking is replaced whole.",
    ),
    KnowledgeBase=record(
        {
            "id": UUID,
            "name": STRING,
            "embeddingModel": STRING,
            "chunking": record({"strategy": STRING, "size": INTEGER, "overlap": INTEGER}),
            "settings": ref("Settings"),
            "settingsEffect": {
                "type": "object",
                "additionalProperties": one_of("read", "recorded"),
                "description": "Whether each setting acts or is only recorded.",
            },
            "currentSnapshot": nullable(record(_SNAPSHOT_IN_SHORT)),
            "build": nullable(ref("Build")),
            "newerExtractor": {
                **nullable(record({"recipe": STRING, "documents": COUNT})),
                "description": "How many documents were read by another extractor than the "
                "installed one, null where none was. They stay as they are until "
                "`reindex` is asked to read them anew.",
            },
            "lastBuild": nullable(ref("LastBuild")),
            "failurePolicy": _FAILURE_POLICY,
            "createdAt": TIME,
        }
    ),
    Reindex=request(
        {
            "reextract": {
                **BOOLEAN,
                "default": False,
                "description": "Also read anew what another extractor has read.",
            }
        },
        optional=["reextract"],
    ),
    Build=record(
        {
            "snapshot": INTEGER,
            "state": one_of("pending", "building"),
            "progress": record(
                {
                    "documents": COUNT,
                    "done": COUNT,
                    "failed": COUNT,
                    "chunks": COUNT,
                    "percent": {"type": "number", "minimum": 0, "maximum": 100},
                    "secondsLeft": {
                        "type": ["integer", "null"],
                        "minimum": 0,
                        "description": "An estimate, by the documents that this build has worked "
                        "off; null before the first one and while paused.",
                    },
                }
            ),
            "paused": BOOLEAN,
        },
        about="The build that is due or running; null once every accepted change is settled.",
    ),
    LastBuild=record(
        {
            "snapshot": INTEGER,
            "state": one_of("ready", "failed", "cancelled", "unchanged"),
            "failedDocuments": COUNT,
            "detail": nullable(STRING),
            "endedAt": TIME,
        },
        about="The newest build, where it has ended: null before the first, and while one runs. "
        "`failed` was held back; `detail` says why.",
    ),
    Snapshot=record(
        {
            **_SNAPSHOT_IN_SHORT,
            "bytes": {
                **COUNT,
                "description": "Of its texts and vectors; what snapshots share counts for each.",
            },
            "current": BOOLEAN,
            "embeddingModel": STRING,
            "chunking": record({"strategy": STRING, "size": INTEGER, "overlap": INTEGER}),
            "failedDocuments": COUNT,
            "detail": nullable(STRING),
            "startedAt": TIME,
            "endedAt": nullable(TIME),
            "pinnedBy": array({"type": "string", "description": "For example `support v3`."}),
        }
    ),
    Passage=record(_PASSAGE, optional=["rerankScore"]),
    Candidate=record({**_PASSAGE, "kept": BOOLEAN}, optional=["rerankScore"]),
    Applied=record(
        {
            "value": ANY,
            "source": one_of("call", "knowledgeBase", "default", "cap", "recordedOnly"),
        }
    ),
    TestBoxRequest=request(
        {
            **QUESTION,
            "snapshot": {"type": ["integer", "null"], "minimum": 1},
            "answer": {
                "type": "boolean",
                "default": False,
                "description": "Whether a model answers from the passages; takes seconds.",
            },
        },
        optional=[*QUESTION_OPTIONAL, "snapshot", "answer"],
        about="Without `snapshot`, the current one is asked.",
    ),
    TestBoxAnswer=record(
        {
            **RETRIEVAL,
            "traceId": {"type": "null"},
            "candidates": {
                **array(ref("Candidate")),
                "description": "The topK best, kept or not.",
            },
            "answer": nullable(
                record(
                    {
                        "text": STRING,
                        "model": STRING,
                        "citations": {
                            **array({"type": "integer", "minimum": 1}),
                            "description": "Numbers of results, from 1.",
                        },
                    }
                )
            ),
            "answerNotice": nullable(
                record(
                    {"code": STRING, "message": STRING},
                    about="Why there is no answer, or what to know about it.",
                )
            ),
            "diagnosis": array(
                record(
                    {
                        "code": one_of(
                            "scores.low",
                            "floor.cuts_everything",
                            "passages.thin",
                            "chunks.too_large",
                            "answer.unsupported",
                        ),
                        "why": STRING,
                        "lookAt": STRING,
                    },
                    about="What stands out, with its figures and the next step.",
                )
            ),
        },
        optional=RETRIEVAL_OPTIONAL,
    ),
    Trace=record(
        {
            "id": UUID,
            "at": TIME,
            "kind": one_of("resolve", "retrieve", "call"),
            "apiKey": STRING,
            "agent": STRING,
            "version": {"oneOf": [INTEGER, {"const": "draft"}]},
            "manifestDigest": nullable(DIGEST),
            "conversationId": nullable(STRING),
            "arguments": ANY_OBJECT,
            "decisions": array(ANY_OBJECT),
            "contextProblems": nullable(array(ANY_OBJECT)),
            "groups": array(ANY_OBJECT),
            "receipt": nullable(DIGEST),
        },
        about="One of a list has no texts; the detail has them, where they are still there.",
    ),
)
