"""The JSON Schemas of what agents ask while they talk, and of replays, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from agents.expressions import REASONS
from agents.replaying import DRAFT_CHANGED, FAILED_GROUPS, SENSITIVE
from agents.resolution import DISABLED, NO_EXPRESSION
from agents.schemas import CONTEXT, VERSION_NUMBER
from agents.tool_formats import FORMATS
from registry.openapi import (
    ANY,
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    DIGEST,
    STRING,
    UUID,
    array,
    components,
    nullable,
    one_of,
    record,
    ref,
    request,
)
from retrieval.schemas import QUESTION, QUESTION_OPTIONAL, RETRIEVAL, RETRIEVAL_OPTIONAL

Schema = dict[str, Any]

_VERSION_OR_ALIAS: dict[str, Schema] = {
    "version": {
        "oneOf": [VERSION_NUMBER, {"const": "draft"}, {"type": "null"}],
        "description": "A number, or `draft` for editors. Exactly one of version and alias.",
    },
    "alias": nullable(STRING),
}
_CONVERSATION: Schema = {"type": ["string", "null"], "maxLength": 200}
REASON = one_of(*REASONS, NO_EXPRESSION, DISABLED)
_DECISION: dict[str, Schema] = {
    "label": STRING,
    "knowledgeBase": ref("KnowledgeBaseName"),
    "expression": nullable(STRING),
    "instruction": STRING,
    "applies": BOOLEAN,
    "reason": REASON,
    "detail": nullable(STRING),
    "parts": array(record({"expression": STRING, "value": ANY, "reason": nullable(STRING)})),
}

components(
    Resolve=request(
        {
            **_VERSION_OR_ALIAS,
            "context": CONTEXT,
            "known": {
                "type": ["string", "null"],
                "description": "The etag of an earlier answer.",
            },
            "trace": {"type": "boolean", "description": "false (editors) leaves no trace."},
            "conversationId": _CONVERSATION,
            "format": {
                "enum": [*FORMATS, None],
                "description": "Write `tools` as clients of this format take them.",
            },
        },
        optional=["version", "alias", "known", "trace", "conversationId", "format"],
    ),
    Resolution=record(
        {
            "agent": STRING,
            "version": {"oneOf": [VERSION_NUMBER, {"const": "draft"}]},
            "digest": nullable(DIGEST),
            "prompt": STRING,
            "model": STRING,
            "parameters": ANY_OBJECT,
            "tools": array({"anyOf": [ref("Tool"), ref("ToolDefinition")]}),
            "bindings": array(record(_DECISION)),
            "knowledgeBases": array(record({"id": UUID, "name": STRING, "instruction": STRING})),
            "contextProblems": array(ANY_OBJECT),
            "etag": DIGEST,
            "traceId": nullable(UUID),
        }
    ),
    Unchanged=record({"unchanged": {"const": True}, "etag": DIGEST}),
    Retrieve=request(
        {
            **_VERSION_OR_ALIAS,
            "context": CONTEXT,
            **QUESTION,
            "conversationId": _CONVERSATION,
        },
        optional=["version", "alias", *QUESTION_OPTIONAL, "conversationId"],
    ),
    Retrieved=record(
        {
            "groups": array(
                {
                    "oneOf": [
                        record({"label": STRING, **RETRIEVAL}, optional=RETRIEVAL_OPTIONAL),
                        record(
                            {"knowledgeBase": ref("KnowledgeBaseName"), "error": ref("Problem")},
                            about="A knowledge base that failed; the others' results stand.",
                        ),
                    ]
                }
            ),
            "receipt": nullable(DIGEST),
            "traceId": UUID,
        }
    ),
    Call=request(
        {
            **_VERSION_OR_ALIAS,
            **QUESTION,
            "conversationId": _CONVERSATION,
            "context": nullable(CONTEXT),
        },
        optional=["version", "alias", *QUESTION_OPTIONAL, "conversationId", "context"],
    ),
    Called=record({**RETRIEVAL, "traceId": UUID}, optional=RETRIEVAL_OPTIONAL),
    Replay=record(
        {
            "identical": BOOLEAN,
            "partial": {
                "enum": [SENSITIVE, DRAFT_CHANGED, FAILED_GROUPS, None],
                "description": "Why less than everything was compared: `sensitive`, the truth "
                "values of what read a sensitive variable were taken as kept; `draftChanged`, the "
                "decisions of a draft edited since were; `failedGroups`, a knowledge base had "
                "failed.",
            },
            "purged": record({"documents": COUNT}),
            "firstDifference": record(
                {
                    "field": {"type": "string", "description": "Its dotted path in the trace."},
                    "expected": ANY,
                    "found": ANY,
                    "knowledgeBase": nullable(STRING),
                    "binding": nullable(STRING),
                    "rank": {"type": ["integer", "null"], "minimum": 1},
                    "document": nullable(STRING),
                    "chunk": nullable(DIGEST),
                    "position": {
                        "type": ["integer", "null"],
                        "minimum": 0,
                        "description": "The chunk's in its document.",
                    },
                    "cause": {
                        "type": ["string", "null"],
                        "description": "A stable code, where the cause can be known: `purged`, "
                        "`rows.changed`, `snapshot.gone`, `draft.changed`, `version.gone`, "
                        "`question.vector_changed`, `question.vector_forgotten`, "
                        "`software.other`, or the code of the error that stopped it.",
                    },
                    "detail": nullable(STRING),
                }
            ),
        },
        optional=["purged", "firstDifference"],
    ),
    ToolDefinition={
        **ANY_OBJECT,
        "description": "A tool as clients of the format take it.",
    },
)
