from __future__ import annotations

from django.apps import AppConfig


class IngestConfig(AppConfig):
    name = "ingest"

    def ready(self) -> None:
        # models can be imported only once all apps are there
        from django.conf import settings

        from catalog.extensions import registered
        from core.jobs.moves import register
        from ingest.actions.registry import listed, of_table
        from ingest.alerts import metrics as alert_metrics
        from ingest.alerts.targets import usable_kinds
        from ingest.jobs import live_sources
        from ingest.lake.place import use_object_store
        from ingest.maintenance import (
            compact_job,
            repair_job,
            storage_check,
            verify_job,
        )
        from ingest.models.alerts import AlertTarget
        from ingest.pipelines import (
            catalog_hooks,
            load_job,
            removal,
            schema_diff,
            schema_drift,
            sync_job,
        )
        from ingest.pipelines.metrics import gauges

        register(*load_job.KINDS, sync_job.KIND, removal.KIND)
        register(compact_job.KIND, verify_job.KIND, repair_job.KIND)
        use_object_store(settings.SLUICE_OBJECT_STORE)
        registered.annotations["onboarding"] = catalog_hooks.onboarding_id
        registered.annotations["capture"] = catalog_hooks.capture
        registered.annotations["lake_table"] = catalog_hooks.lake_table
        registered.annotations["sync"] = catalog_hooks.sync
        registered.blockers.append(catalog_hooks.what_needs)
        registered.releases.append(catalog_hooks.forget_retired)
        registered.storage = storage_check.store_problem
        registered.altered.append(schema_drift.sources_altered)
        registered.altered.append(schema_diff.report_altered)
        registered.secrets.append(AlertTarget)
        registered.gauges.append(gauges)
        registered.gauges.append(alert_metrics.gauges)
        registered.alert_targets = usable_kinds
        registered.actions = listed
        registered.actions_of = of_table
        registered.live_table = live_sources.live_table
        registered.live_access = live_sources.live_access
        registered.live_end = live_sources.end_live
