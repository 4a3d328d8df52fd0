"""Agents, their versions with bindings and tools, and the aliases that point to them."""

from agents.models.agents import Agent, Alias, AliasMove
from agents.models.versions import AgentVersion, KnowledgeBinding, Tool

__all__ = ["Agent", "AgentVersion", "Alias", "AliasMove", "KnowledgeBinding", "Tool"]
