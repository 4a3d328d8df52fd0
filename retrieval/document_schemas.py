"""The JSON Schemas of documents, one and many, their revisions and previews of their chunks."""

from __future__ import annotations

from typing import Any

from registry.openapi import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
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
from retrieval.chunking import CUTS
from retrieval.purging import LONGEST_REASON

Schema = dict[str, Any]

_NAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 500,
    "description": "May contain `/`. Unique among the living documents of its knowledge base.",
}
_REVISION: dict[str, Schema] = {
    "number": INTEGER,
    "sha256": DIGEST,
    "size": {"type": "integer", "description": "In bytes."},
    "mediaType": STRING,
    "createdAt": TIME,
    "text": {
        "enum": ["read", "pending", "failed", "purged"],
        "description": "Whether its text is there.",
    },
    "detail": {"type": ["string", "null"], "description": "Why it is not, for a person."},
    "pages": nullable(INTEGER),
    "recipe": {"type": ["string", "null"], "description": "What read it, or tried to."},
}

components(
    DocumentText=request(
        {"name": _NAME, "text": STRING, "metadata": nullable(ANY_OBJECT)},
        optional=["metadata"],
        about="Without an extension in its name, the text is Markdown.",
    ),
    DocumentTextReplacement=request(
        {"name": _NAME, "text": STRING, "metadata": nullable(ANY_OBJECT)},
        optional=["name", "metadata"],
    ),
    DocumentFile=request(
        {
            "file": {"type": "string", "contentMediaType": "application/octet-stream"},
            "name": {**_NAME, "description": "Else the file's own name."},
            "metadata": {"type": "string", "description": "A JSON object, as text."},
        },
        optional=["name", "metadata"],
    ),
    DocumentChange=changes(
        {
            "name": _NAME,
            "metadata": ANY_OBJECT,
            "enabled": BOOLEAN,
            "chunking": nullable(ref("Chunking")),
        },
        about="The next snapshot shows it. Only another `chunking` embeds anything, and this "
        "document alone; null takes it back to that of the knowledge base.",
    ),
    Document=record(
        {
            "id": UUID,
            "name": STRING,
            "revision": {"type": "integer", "description": "The newest."},
            "servedRevision": {
                "type": ["integer", "null"],
                "description": "The revision that is searched now, null where none is.",
            },
            "status": {
                "enum": ["pending", "extracted", "indexed", "failed"],
                "description": "Where the newest revision stands.",
            },
            "error": nullable(record({"code": STRING, "message": STRING})),
            "notices": array(STRING),
            "enabled": BOOLEAN,
            "metadata": ANY_OBJECT,
            "chunking": nullable(record({"strategy": STRING, "size": INTEGER, "overlap": INTEGER})),
            "mediaType": STRING,
            "size": {"type": "integer", "description": "In bytes."},
            "sha256": DIGEST,
            "pages": nullable(INTEGER),
            "chunks": {"type": "integer", "minimum": 0, "description": "That are searched now."},
            "createdAt": TIME,
        }
    ),
    PurgeRequest=request(
        {
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_REASON,
                "description": "Why it is erased. Kept for ever, in the audit log too: without "
                "what is to be erased.",
            }
        }
    ),
    PurgedDocument=record(
        {
            "id": UUID,
            "name": STRING,
            "reason": STRING,
            "purgedBy": STRING,
            "purgedAt": TIME,
            "revisions": {**array(INTEGER), "description": "The numbers of those erased."},
            "chunks": {**COUNT, "description": "Passages erased, in all indexed forms."},
            "copies": {
                **array(
                    record({"id": UUID, "name": STRING, "knowledgeBase": UUID, "deleted": BOOLEAN})
                ),
                "description": "Other documents with the same bytes: each has its own purge.",
            },
        },
        about="What a purge erased; of the first one, where it was purged before.",
    ),
    Segment=record({"page": nullable(INTEGER), "section": nullable(STRING), "text": STRING}),
    ChunkPreviewRequest=request(
        {
            "chunking": nullable(ref("Chunking")),
            "embeddingModel": STRING,
            "document": nullable(UUID),
            "text": {
                "type": ["string", "null"],
                "description": "Read as Markdown, instead of a document.",
            },
            "from": {"type": "integer", "minimum": 0, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
        },
        optional=["chunking", "embeddingModel", "document", "text", "from", "limit"],
        about="Without chunking, the document's own or that of the knowledge base. Exactly one of document "
        "and text. `from` and `limit` choose the chunks that are returned.",
    ),
    ChunkPreview=record(
        {
            "chunking": record({"strategy": STRING, "size": INTEGER, "overlap": INTEGER}),
            "embeddingModel": STRING,
            "document": nullable(record({"id": UUID, "name": STRING, "revision": INTEGER})),
            "figures": record(
                {
                    "chunks": COUNT,
                    "currentChunks": {
                        "type": ["integer", "null"],
                        "description": "Of the document, that are searched now.",
                    },
                    "shortest": {"type": ["integer", "null"], "description": "In tokens."},
                    "longest": {"type": ["integer", "null"], "description": "In tokens."},
                    "mean": {"type": ["number", "null"], "description": "In tokens."},
                    "truncated": COUNT,
                    "cuts": {
                        "type": "object",
                        "additionalProperties": COUNT,
                        "description": "How many chunks end at which kind of place.",
                    },
                },
                about="Over all chunks, whatever `limit` is.",
            ),
            "complete": {
                **BOOLEAN,
                "description": "False where only the first million characters were cut.",
            },
            "chunks": array(
                record(
                    {
                        "ordinal": COUNT,
                        "text": STRING,
                        "page": nullable(INTEGER),
                        "section": nullable(STRING),
                        "start": {
                            "type": "integer",
                            "description": "In code points of the segments' texts, a blank line "
                            "between.",
                        },
                        "end": INTEGER,
                        "tokens": COUNT,
                        "shared": {
                            **COUNT,
                            "description": "Code points that the chunk before has too.",
                        },
                        "cut": {
                            "enum": list(CUTS),
                            "description": "What it ends at; `character` is inside a word, "
                            "`limit` where what follows is in no chunk.",
                        },
                        "truncated": BOOLEAN,
                    }
                )
            ),
        }
    ),
    IngestFiles=request(
        {
            "file": array({"type": "string", "contentMediaType": "application/octet-stream"}),
            "name": {
                **array(_NAME),
                "description": "One for each file, in their order. Else the files' own names, "
                "with the folders in them.",
            },
            "folder": {"type": "string", "description": "Put before each name: `eu`."},
            "metadata": {
                "type": "string",
                "description": "A JSON object, as text, for each document. Without it, "
                "documents keep theirs.",
            },
            "replace": {
                **one_of("true", "false"),
                "default": "true",
                "description": "`false`: a name that is taken by other content fails.",
            },
            "deleteMissing": {
                **one_of("true", "false"),
                "default": "false",
                "description": "Delete the documents that none of the files has the name of; "
                "with `folder`, only of those below it.",
            },
        },
        optional=["name", "folder", "metadata", "replace", "deleteMissing"],
    ),
    Ingested=record(
        {
            "counts": record(
                {
                    "created": COUNT,
                    "updated": COUNT,
                    "replaced": COUNT,
                    "unchanged": COUNT,
                    "failed": COUNT,
                    "deleted": COUNT,
                }
            ),
            "results": array(
                record(
                    {
                        "name": STRING,
                        "outcome": one_of("created", "updated", "replaced", "unchanged", "failed"),
                        "document": nullable(ref("Document")),
                        "problem": nullable(ANY_OBJECT),
                    }
                )
            ),
            "deleted": array(record({"id": UUID, "name": STRING})),
        },
        about="The results are in the order of the files.",
    ),
    Revision=record(_REVISION),
    RevisionDiff=record(
        {
            "from": ref("Revision"),
            "to": ref("Revision"),
            "reason": {
                "type": ["string", "null"],
                "description": "Why the texts cannot be compared.",
            },
            "note": {
                "type": ["string", "null"],
                "description": "What equal texts do not show.",
            },
            "removed": {**COUNT, "description": "Lines, over all pages of the list."},
            "added": COUNT,
            "results": array(
                record(
                    {
                        "fromLine": INTEGER,
                        "toLine": INTEGER,
                        "page": nullable(INTEGER),
                        "section": nullable(STRING),
                        "lines": array(
                            record({"change": one_of("same", "removed", "added"), "text": STRING})
                        ),
                    },
                    about="Changed lines with up to three equal ones around; lines that are not "
                    "blank count from 1. Page and section are those of the first that changed.",
                )
            ),
            "next": nullable(STRING),
        }
    ),
)
