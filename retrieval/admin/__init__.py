"""The admin of knowledge bases, documents, snapshots, models and traces."""

from retrieval.admin.documents import DocumentAdmin
from retrieval.admin.knowledge_bases import KnowledgeBaseAdmin
from retrieval.admin.records import EmbeddingModelAdmin, TraceAdmin
from retrieval.admin.snapshots import IndexSnapshotAdmin

__all__ = [
    "DocumentAdmin",
    "EmbeddingModelAdmin",
    "IndexSnapshotAdmin",
    "KnowledgeBaseAdmin",
    "TraceAdmin",
]
