from __future__ import annotations

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        # Settings are complete only now.
        from catalog import extensions
        from config import checks, logs  # noqa: F401  checks register themselves
        from config.rule_checks import check_rule
        from config.samples import rows_through_gateway
        from ingest.pipelines.sampling import registered

        logs.set_up()
        registered.query = rows_through_gateway
        extensions.registered.rules = check_rule
