from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents"

    def ready(self) -> None:
        from agents.holders import draft_holders  # noqa: PLC0415 - needs loaded models
        from agents.replaying import replay_for_retrieval  # noqa: PLC0415
        from retrieval.pins import register_holder_finder  # noqa: PLC0415
        from retrieval.replaying import register_replayer  # noqa: PLC0415

        register_holder_finder(draft_holders)
        register_replayer(replay_for_retrieval)
