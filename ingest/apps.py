from __future__ import annotations

from django.apps import AppConfig


class IngestConfig(AppConfig):
    name = "ingest"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # models can be imported only once all apps are there
        from django.conf import settings

        from catalog.extensions import registered
        from ingest import carrying, lakecheck, schema_drift
        from ingest.alerts.models import AlertTarget
        from ingest.alerts.noticing import sources_altered
        from ingest.gauges import gauges
        from ingest.lake.place import use_object_store

        use_object_store(settings.SLUICE_OBJECT_STORE)
        registered.annotations["onboarding"] = carrying.onboarding_id
        registered.annotations["carried_as"] = carrying.carried_as
        registered.annotations["sync"] = carrying.sync
        registered.blockers.append(carrying.what_needs)
        registered.releases.append(carrying.forget_retired)
        registered.storage = lakecheck.store_problem
        # what is followed is no alert
        registered.altered.append(schema_drift.sources_altered)
        registered.altered.append(sources_altered)
        registered.secrets.append(AlertTarget)
        registered.gauges.append(gauges)
