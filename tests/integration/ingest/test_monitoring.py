"""/metrics tells what is; the files of docker/monitoring are what they claim. What
Prometheus makes of them: test_prometheus.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from core.models import Job
from ingest.alerts import fan_out, store
from ingest.alerts.rules import Finding
from ingest.models.alerts import AlertTarget
from ingest.pipelines import metrics, sync_job
from tests.doubles.launcher import Fault
from tests.integration.catalog.asking import Rest

MONITORING = Path(__file__).resolve().parents[3] / "docker" / "monitoring"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "sluice.json"


def rules() -> list[dict[str, Any]]:
    body = yaml.safe_load((MONITORING / "rules.yml").read_text())
    return [rule for group in body["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def values() -> dict[tuple[str, ...], float]:
    text = Rest()("GET", "/metrics").content.decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.django_db
def test_metrics_tell_what_is(world) -> None:
    world.onboard("orders")
    world.until_live("orders")
    world.fail_with("sync", Fault.TERMINAL)
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    AlertTarget.objects.create(name="t", kind="webhook", address="x", failures=1)
    store.open_alert(world.lake("orders").pk, Finding("stuck", cause="x", message="x"))
    fan_out.announce()
    with CaptureQueriesContext(connection) as asked:
        list(metrics.gauges())
    assert len(asked) <= 8
    now = values()
    assert now["sluice_alerts_open", "failed"] == 1
    assert now["sluice_alerts_open", "late"] == 0
    assert now["sluice_alert_targets", "failing"] == 1
    assert now["sluice_alert_deliveries_waiting",] == 1
    assert now["sluice_tables_by_score", "100"] == 1
    assert now["sluice_jobs_recent", "sync", "FAILED"] == 1
    assert now["sluice_commits_recent",] >= 2
    assert now["sluice_rows_recent",] >= 2
    counted = {"facts": {"rows": 10**9}}
    Job.objects.create(kind="repair", state="SUCCEEDED", report=counted)
    assert values()["sluice_rows_recent",] < 10**9, "a count writes no row"
    assert now["sluice_table_lag_seconds_bucket", "+Inf"] == 0, "it is not followed now"


def test_rules_and_panels_say_what_they_are() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert {"summary", "action"} == rule["annotations"].keys()
    source = yaml.safe_load(
        (MONITORING / "grafana/provisioning/datasources/sluice.yaml").read_text()
    )["datasources"][0]
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    for panel in panels():
        assert panel["datasource"]["uid"] == source["uid"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_the_dashboard_shows_what_follows_the_logs_of_sources() -> None:
    """Tables that follow a log have no jobs and no schedule: other panels lack them."""
    queries = " ".join(
        target["expr"] for panel in panels() for target in panel["targets"]
    )
    for name in (
        "sluice_log_followers",
        "sluice_log_lag_seconds_max",
        "sluice_log_rows_per_second",
        "sluice_log_waiting_bytes",
        "sluice_source_log_bytes",
    ):
        assert name in queries


def test_compose_mounts_what_is_there_and_is_as_closed_as_the_rest() -> None:
    body = yaml.safe_load((MONITORING / "compose.yaml").read_text())
    main = yaml.safe_load((MONITORING.parent / "compose.yaml").read_text())
    scrape = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    (target,) = scrape["scrape_configs"][0]["static_configs"][0]["targets"]
    host = target.partition(":")[0]
    assert host in main["services"]
    web = body["services"]["web"]["environment"]["SLUICE_ALLOWED_HOSTS"]
    assert web.split(",")[-1] == host
    for name in ("prometheus", "grafana"):
        service = body["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert all(":-127.0.0.1:" in port for port in service["ports"])
        assert set(service["networks"]) <= main["networks"].keys()
        for volume in service["volumes"]:
            place = volume.partition(":")[0]
            if place.startswith("."):
                assert (MONITORING.parent / place).exists(), place
            else:
                assert place in body["volumes"]
