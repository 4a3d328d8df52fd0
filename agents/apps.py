from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents"

    def ready(self) -> None:
        from agents.holders import draft_holders  # noqa: PLC0415 - needs loaded models
        from retrieval.pins import register_holder_finder  # noqa: PLC0415

        register_holder_finder(draft_holders)
