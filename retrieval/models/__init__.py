"""The tables of retrieval, in the order in which data flows through them.

Bytes → ``DocumentRevision`` → ``Extraction`` → ``IndexedDocument`` with its ``Chunk`` rows →
``IndexSnapshot`` through ``SnapshotMember`` → pinned by ``SnapshotPin``. Import from here.
"""

from retrieval.models.documents import Document, DocumentRevision, Extraction, Purge
from retrieval.models.evaluations import Evaluation, EvaluationQuestion, EvaluationScore
from retrieval.models.indexes import Chunk, IndexedDocument, PendingVector
from retrieval.models.knowledge_bases import EmbeddingModel, KnowledgeBase
from retrieval.models.records import NewQuestions, QueryEmbedding, RerankScore, Trace
from retrieval.models.snapshots import BuildPiece, IndexSnapshot, SnapshotMember, SnapshotPin

__all__ = [
    "BuildPiece",
    "Chunk",
    "Document",
    "DocumentRevision",
    "EmbeddingModel",
    "Evaluation",
    "EvaluationQuestion",
    "EvaluationScore",
    "Extraction",
    "IndexSnapshot",
    "IndexedDocument",
    "KnowledgeBase",
    "NewQuestions",
    "PendingVector",
    "Purge",
    "QueryEmbedding",
    "RerankScore",
    "SnapshotMember",
    "SnapshotPin",
    "Trace",
]
