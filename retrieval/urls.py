"""The addresses of retrieval, below ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from retrieval.views import (
    chunk_previews,
    documents,
    evaluation,
    ingestion,
    knowledge_bases,
    revisions,
    snapshots,
    traces,
)

_BASE = "knowledge-bases/<str:knowledge_base_id>"
_DOCUMENT = f"{_BASE}/documents/<str:document_id>"

urlpatterns = [
    path("knowledge-bases", knowledge_bases.KnowledgeBases.as_view()),
    path(_BASE, knowledge_bases.KnowledgeBaseDetail.as_view()),
    path(f"{_BASE}/reindex", knowledge_bases.Reindex.as_view()),
    path(f"{_BASE}/chunking/preview", chunk_previews.ChunkPreviews.as_view()),
    path(f"{_BASE}/build/pause", knowledge_bases.PauseBuild.as_view()),
    path(f"{_BASE}/build/resume", knowledge_bases.ResumeBuild.as_view()),
    path(f"{_BASE}/documents", documents.Documents.as_view()),
    path(f"{_BASE}/documents/ingest", ingestion.Ingestion.as_view()),
    path(_DOCUMENT, documents.DocumentDetail.as_view()),
    path(f"{_DOCUMENT}/retry", documents.RetryDocument.as_view()),
    path(f"{_DOCUMENT}/segments", documents.Segments.as_view()),
    path(f"{_DOCUMENT}/revisions", revisions.Revisions.as_view()),
    path(f"{_DOCUMENT}/revisions/<int:number>/diff/<int:other>", revisions.RevisionDiff.as_view()),
    path(f"{_DOCUMENT}/purge", documents.PurgeDocument.as_view()),
    path(f"{_BASE}/snapshots", snapshots.Snapshots.as_view()),
    path(f"{_BASE}/snapshots/<int:number>", snapshots.SnapshotDetail.as_view()),
    path(f"{_BASE}/snapshots/<int:number>/cancel", snapshots.CancelBuild.as_view()),
    path(f"{_BASE}/test", snapshots.TestBox.as_view()),
    path(f"{_BASE}/questions", evaluation.Questions.as_view()),
    path(f"{_BASE}/questions/<str:question_id>", evaluation.QuestionDetail.as_view()),
    path(f"{_BASE}/evaluate", evaluation.Evaluate.as_view()),
    path(f"{_BASE}/evaluations", evaluation.Evaluations.as_view()),
    path(f"{_BASE}/evaluations/<str:evaluation_id>", evaluation.EvaluationDetail.as_view()),
    path(f"{_BASE}/evaluations/<str:evaluation_id>/outcomes", evaluation.Outcomes.as_view()),
    path("traces", traces.Traces.as_view()),
    path("traces/<str:trace_id>", traces.TraceDetail.as_view()),
]
