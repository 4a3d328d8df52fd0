"""The JSON Schema of the coverage table, for the OpenAPI document."""

from __future__ import annotations

from agents.conversation_schemas import REASON
from agents.schemas import VERSION_NUMBER
from registry.openapi import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    STRING,
    UUID,
    array,
    components,
    nullable,
    record,
    ref,
)

components(
    Coverage=record(
        {
            "agent": STRING,
            "version": {"oneOf": [VERSION_NUMBER, {"const": "draft"}]},
            "variables": array(
                record(
                    {
                        "name": STRING,
                        "values": {"type": "array", "description": "What was tried."},
                        "leftOut": {"type": "boolean", "description": "Also without it."},
                    },
                    about="A name that an enabled binding reads.",
                )
            ),
            "combinations": {**COUNT, "description": "Of the values of all variables."},
            "tried": {**COUNT, "description": "How many of them are in the table."},
            "complete": {
                "type": "boolean",
                "description": "All were tried, and they stand for all that is declared.",
            },
            "bindings": array(
                record(
                    {
                        "id": UUID,
                        "label": STRING,
                        "knowledgeBase": ref("KnowledgeBaseName"),
                        "expression": nullable(STRING),
                        "enabled": BOOLEAN,
                        "applies": {**COUNT, "description": "In how many of the contexts."},
                        "neverApplies": BOOLEAN,
                        "shadowedBy": {
                            **array(STRING),
                            "description": "Earlier bindings of the same knowledge base, one of "
                            "which applies wherever this one does.",
                        },
                    }
                )
            ),
            "contexts": array(
                record(
                    {
                        "sample": {
                            "type": ["string", "null"],
                            "description": "The name of a saved sample; null: made of values.",
                        },
                        "context": ANY_OBJECT,
                        "decisions": array(
                            record(
                                {"applies": BOOLEAN, "reason": REASON},
                                about="One for each binding, in their order.",
                            )
                        ),
                        "knowledgeBases": array(ref("KnowledgeBaseName")),
                    }
                )
            ),
            "warnings": array(ref("Warning")),
        }
    ),
)
