from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
from django.db.models.signals import post_migrate


class RegistryConfig(AppConfig):
    name = "registry"
    verbose_name = "Registry"

    def ready(self) -> None:
        import registry.celery  # noqa: PLC0415 - hints are sent by this application
        from registry.grants import grant_app_role  # noqa: PLC0415 - needs loaded apps

        registry.celery.app.finalize()
        post_migrate.connect(grant_app_role, dispatch_uid="registry.grant_app_role")


class RegistryAdminConfig(AdminConfig):
    default_site = "registry.admin_site.RegistrySite"
