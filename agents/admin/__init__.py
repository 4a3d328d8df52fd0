"""The admin of agents and their versions, and of the API keys that reach them."""

from agents.admin.agents import AgentAdmin
from agents.admin.api_keys import ApiKeyAdmin
from agents.admin.versions import AgentVersionAdmin

__all__ = ["AgentAdmin", "AgentVersionAdmin", "ApiKeyAdmin"]
