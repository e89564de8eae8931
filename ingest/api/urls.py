"""REST of ingestion, below /api/v1: onboardings, jobs, and the verbs of tables."""

from __future__ import annotations

from django.urls import URLPattern, path

from catalog.api import converters
from ingest.api import (
    actions,
    alerts,
    events,
    health,
    jobs,
    onboardings,
    policies,
    removals,
    schema_changes,
    sources,
    tables,
)

converters.register()

_ONE = "onboardings/<uuid:onboarding_id>"
_JOB = "jobs/<uuid:job_id>"
_TABLE = "tables/<id:table_id>"
_TARGET = "alert-targets/<source:target>"

urlpatterns: list[URLPattern] = [
    path("access/preview", tables.AccessPreviewView.as_view()),
    path("onboardings", onboardings.OnboardingsView.as_view()),
    path(_ONE, onboardings.OnboardingView.as_view()),
    path(f"{_ONE}:approve", onboardings.ApproveView.as_view()),
    path(f"{_ONE}:discard", onboardings.DiscardView.as_view()),
    path("datasources/<source:ds>:resume", sources.DatasourceResumeView.as_view()),
    path("datasources/<source:ds>/capture", sources.CaptureView.as_view()),
    path("datasources/<source:ds>:start-capture", sources.StartCaptureView.as_view()),
    path("datasources/<source:ds>:stop-capture", sources.StopCaptureView.as_view()),
    path("datasources/<source:ds>/policy", policies.DatasourcePolicyView.as_view()),
    path(
        "datasources/<source:ds>/databases/<name:db>/policy",
        policies.DatabasePolicyView.as_view(),
    ),
    path(f"{_TABLE}/policy", policies.TablePolicyView.as_view()),
    path("alerts", alerts.AlertsView.as_view()),
    path("alerts/<id:id>:dismiss", alerts.AlertDismissView.as_view()),
    path("alerts/<id:id>:acknowledge", alerts.AlertAcknowledgeView.as_view()),
    path("alert-mutes", alerts.AlertMutesView.as_view()),
    path("alert-mutes/<id:id>", alerts.AlertMuteView.as_view()),
    path("alert-targets", alerts.AlertTargetsView.as_view()),
    path(_TARGET, alerts.AlertTargetView.as_view()),
    path(f"{_TARGET}:test", alerts.AlertTargetTestView.as_view()),
    path(f"{_TARGET}:resume", alerts.AlertTargetResumeView.as_view()),
    path(f"{_TARGET}/deliveries", alerts.AlertDeliveriesView.as_view()),
    path("jobs", jobs.JobsView.as_view()),
    path(_JOB, jobs.JobView.as_view()),
    path(f"{_JOB}:cancel", jobs.JobCancelView.as_view()),
    path(f"{_JOB}:retry", jobs.JobRetryView.as_view()),
    path(f"{_JOB}/logs", jobs.JobLogsView.as_view()),
    path(f"{_JOB}/events", events.JobEventsView.as_view()),
    path(f"{_TABLE}/schema-change", schema_changes.SchemaChangeView.as_view()),
    path("schema-changes", schema_changes.SchemaChangesView.as_view()),
    path("schema-changes:approve", schema_changes.ApproveSchemaChangesView.as_view()),
    path("tables:remove", removals.RemoveTablesView.as_view()),
    path(f"{_TABLE}/commits", tables.CommitsView.as_view()),
    path(f"{_TABLE}/sample", tables.SampleView.as_view()),
    path(f"{_TABLE}/changes", tables.ChangesView.as_view()),
    path(f"{_TABLE}/health", health.HealthView.as_view()),
    path(f"{_TABLE}/files", health.FilesView.as_view()),
    path(f"{_TABLE}/metrics", health.MetricsView.as_view()),
    *actions.routes(_TABLE),
]
