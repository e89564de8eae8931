from __future__ import annotations

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "catalog"

    def ready(self) -> None:
        # models can be imported only once all apps are there
        from catalog.discovery.services import JOB_KINDS
        from core.jobs.moves import register

        register(*JOB_KINDS)
