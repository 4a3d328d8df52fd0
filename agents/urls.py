"""The addresses of agents, below ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from agents.views import agents, aliases, conversations, coverage, drafts, traces, versions

_AGENT = "agents/<str:slug>"
_VERSION = f"{_AGENT}/versions/<int:number>"

urlpatterns = [
    path("agents", agents.Agents.as_view()),
    path(_AGENT, agents.AgentDetail.as_view()),
    path(f"{_AGENT}/draft", drafts.Draft.as_view()),
    path(f"{_AGENT}/draft/coverage", coverage.DraftCoverage.as_view()),
    path(f"{_AGENT}/publish", versions.Publish.as_view()),
    path(f"{_AGENT}/versions", versions.Versions.as_view()),
    path(_VERSION, versions.VersionDetail.as_view()),
    path(f"{_VERSION}/coverage", coverage.VersionCoverage.as_view()),
    path(f"{_VERSION}/diff/draft", versions.VersionDraftDifference.as_view()),
    path(f"{_VERSION}/diff/<int:other>", versions.VersionDifference.as_view()),
    path(f"{_VERSION}/verify", versions.Verify.as_view()),
    path(f"{_VERSION}/restore", versions.Restore.as_view()),
    path(f"{_AGENT}/aliases", aliases.Aliases.as_view()),
    path(f"{_AGENT}/aliases/<str:name>", aliases.AliasDetail.as_view()),
    path(f"{_AGENT}/aliases/<str:name>/history", aliases.AliasHistory.as_view()),
    path(f"{_AGENT}/resolve", conversations.Resolve.as_view()),
    path(f"{_AGENT}/retrieve", conversations.Retrieve.as_view()),
    path(f"{_AGENT}/tools", conversations.Tools.as_view()),
    path(f"{_AGENT}/tools/<str:name>/call", conversations.CallTool.as_view()),
    path("traces/<str:trace_id>/replay", traces.ReplayTrace.as_view()),
]
