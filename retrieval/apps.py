from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RetrievalConfig(AppConfig):
    name = "retrieval"
    verbose_name = "Knowledge"

    def ready(self) -> None:
        from retrieval.embedding_models import ensure_default_model  # noqa: PLC0415

        post_migrate.connect(
            ensure_default_model, sender=self, dispatch_uid="retrieval.ensure_default_model"
        )
