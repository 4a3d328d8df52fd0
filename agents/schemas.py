"""The JSON Schemas of the agents' requests and answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from agents.configuration import MOST_BINDINGS, MOST_TOOLS
from agents.expressions import TYPES
from agents.models.agents import SLUG_PATTERN
from agents.samples import LONGEST_NAME, MOST_SAMPLES
from registry.openapi import (
    ANY,
    ANY_OBJECT,
    BOOLEAN,
    DIGEST,
    INTEGER,
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

Schema = dict[str, Any]

_SLUG: Schema = {"type": "string", "pattern": SLUG_PATTERN}
VERSION_NUMBER: Schema = {"type": "integer", "minimum": 1}
_OWNED_OBJECT: Schema = {**ANY_OBJECT, "description": "Kept as it came, the order of keys too."}
_EXPRESSION: Schema = {
    "type": ["string", "null"],
    "description": "Over the context: `region == 'EU'`. Null: the knowledge base always applies.",
}
CONTEXT: Schema = {
    "type": "object",
    "additionalProperties": True,
    "description": "What describes the conversation; expressions read it. At most 64 KB.",
}

_BINDING: dict[str, Schema] = {
    "id": UUID,
    "knowledgeBase": UUID,
    "expression": _EXPRESSION,
    "label": {"type": "string", "maxLength": 200},
    "instruction": {"type": "string", "maxLength": 2000},
    "enabled": BOOLEAN,
}
_RAG_TOOL: dict[str, Schema] = {
    "id": UUID,
    "type": {"const": "rag"},
    "name": STRING,
    "description": STRING,
    "knowledgeBase": UUID,
}
_FUNCTION_TOOL: dict[str, Schema] = {
    "id": UUID,
    "type": {"const": "function"},
    "name": STRING,
    "description": STRING,
    "parameters": {**_OWNED_OBJECT, "description": "A JSON Schema; kept as it came."},
}
_CONFIGURATION: dict[str, Schema] = {
    "prompt": STRING,
    "model": STRING,
    "parameters": _OWNED_OBJECT,
    "contextVariables": array(ref("ContextVariable")),
    "bindings": array(ref("Binding")),
    "tools": array(ref("Tool")),
    "sampleContexts": {
        **array(ref("SampleContext")),
        "description": "Conversations to look at the bindings with; no part of the digest.",
    },
    "coverageErrors": {
        "type": "boolean",
        "description": "Publishing is refused while the coverage has warnings.",
    },
}
_DRAFT: dict[str, Schema] = {
    "agent": STRING,
    "revision": INTEGER,
    "basedOn": nullable(INTEGER),
    **_CONFIGURATION,
}
_IN_SHORT: dict[str, Schema] = {
    "number": VERSION_NUMBER,
    "digest": DIGEST,
    "basedOn": nullable(INTEGER),
    "notes": STRING,
    "publishedBy": STRING,
    "publishedAt": TIME,
    "origin": {
        "oneOf": [
            record(
                {
                    "installation": UUID,
                    "agent": STRING,
                    "version": VERSION_NUMBER,
                    "publishedBy": STRING,
                    "publishedAt": TIME,
                    "exportedAt": TIME,
                    "archive": DIGEST,
                }
            ),
            {"type": "null"},
        ],
        "description": "Where an imported version came from; null where it was made here.",
    },
}
_VERSION: dict[str, Schema] = {
    **_DRAFT,
    **_IN_SHORT,
    "knowledgeBases": array(
        record(
            {
                "id": UUID,
                "name": STRING,
                "snapshot": record({"number": INTEGER, "digest": DIGEST}),
                "settings": ref("Settings"),
            },
            about="As they were pinned.",
        )
    ),
    "manifest": {
        "type": "string",
        "description": "Canonical JSON (RFC 8785); its SHA-256 is the digest.",
    },
}

components(
    AgentCreate=request(
        {"slug": _SLUG, "name": {"type": "string", "minLength": 1, "maxLength": 200}},
        optional=["name"],
    ),
    AgentChange=changes(
        {
            "name": {"type": "string", "minLength": 1, "maxLength": 200},
            "archived": {"type": "boolean", "description": "Needs an admin."},
        }
    ),
    Agent=record(
        {
            "slug": STRING,
            "name": STRING,
            "archived": BOOLEAN,
            "newestVersion": nullable(INTEGER),
            "draftRevision": INTEGER,
            "createdAt": TIME,
        }
    ),
    ContextVariable=record(
        {
            "name": STRING,
            "type": one_of(*TYPES),
            "values": {"type": ["array", "null"]},
            "required": BOOLEAN,
            "sensitive": {"type": "boolean", "description": "Traces keep an HMAC of it only."},
            "example": ANY,
            "description": STRING,
        },
        optional=["values", "required", "sensitive", "example", "description"],
    ),
    Binding=record(_BINDING),
    BindingInput=request(
        _BINDING,
        optional=["id", "expression", "label", "instruction", "enabled"],
        about="An item that brings its id keeps it. Without a label it is called like its base.",
    ),
    Tool={"oneOf": [record(_RAG_TOOL), record(_FUNCTION_TOOL)]},
    ToolInput={
        "oneOf": [
            request(_RAG_TOOL, optional=["id", "description"]),
            request(_FUNCTION_TOOL, optional=["id", "description"]),
        ]
    },
    DraftInput=changes(
        {
            **_DRAFT,
            "bindings": {**array(ref("BindingInput")), "maxItems": MOST_BINDINGS},
            "tools": {**array(ref("ToolInput")), "maxItems": MOST_TOOLS},
            "sampleContexts": {**array(ref("SampleContext")), "maxItems": MOST_SAMPLES},
            "warnings": {"type": "array"},
            "acceptWarnings": {
                "type": "boolean",
                "description": "Save expressions that can never be true, are always true, or are "
                "hardly meant otherwise; the audit log says so.",
            },
        },
        about="An array replaces the array. `agent`, `revision`, `basedOn` and `warnings` are "
        "ignored.",
    ),
    Draft=record({**_DRAFT, "warnings": array(ref("Warning"))}),
    SampleContext=request(
        {"name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}, "context": CONTEXT}
    ),
    Warning=record(
        {
            "code": STRING,
            "message": STRING,
            "field": {"type": "string", "description": "`bindings.0.expression`"},
            "value": nullable(STRING),
            "allowed": {"type": ["array", "null"]},
            "isNote": {"type": "boolean", "description": "A note needs nobody's consent."},
        }
    ),
    Publish=changes(
        {
            "notes": {"type": "string", "maxLength": 10_000},
            "acceptOutdated": {
                "type": "boolean",
                "description": "Publish although changes are not yet in the snapshots.",
            },
        }
    ),
    VersionInShort=record(_IN_SHORT),
    Version=record(_VERSION),
    Publication=record({**_VERSION, "warnings": array(ref("Warning"))}),
    Difference=record(
        {
            "from": {"oneOf": [VERSION_NUMBER, {"const": "draft"}]},
            "to": {"oneOf": [VERSION_NUMBER, {"const": "draft"}]},
            "changes": array(
                record(
                    {
                        "path": {"type": "string", "description": "`bindings.<id>.expression`"},
                        "before": ANY,
                        "after": ANY,
                    }
                )
            ),
        }
    ),
    Verification=record(
        {
            "ok": {"type": "boolean"},
            "parts": array(
                record(
                    {
                        "part": STRING,
                        "ok": {"type": "boolean"},
                        "purged": {
                            "const": True,
                            "description": "Its contents were erased; the digests are there.",
                        },
                    },
                    optional=["purged"],
                )
            ),
            "firstDifference": record(
                {
                    "part": STRING,
                    "what": STRING,
                    "expected": nullable(STRING),
                    "found": nullable(STRING),
                    "document": nullable(STRING),
                    "chunk": nullable(INTEGER),
                }
            ),
        },
        optional=["firstDifference"],
    ),
    AliasMoveRequest=request(
        {
            "version": VERSION_NUMBER,
            "expectedVersion": {
                "type": ["integer", "null"],
                "description": "Where it must point to now; null: it must not exist yet.",
            },
        },
        optional=["expectedVersion"],
    ),
    Alias=record({"name": STRING, "version": VERSION_NUMBER, "movedAt": TIME}),
    AliasMove=record(
        {"from": nullable(INTEGER), "to": INTEGER, "actor": STRING, "at": TIME},
        about="Newest first.",
    ),
)
