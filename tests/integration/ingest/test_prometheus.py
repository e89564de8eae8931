"""A real Prometheus reads the rules and asks what the dashboard asks: each panel finds
its series in what /metrics says, each rule fires when it should, and only then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import client
from ingest.maintenance import compact_job
from ingest.models.alerts import AlertTarget
from ingest.pipelines import sync_job
from tests.doubles.launcher import Fault
from tests.integration.catalog.asking import Rest
from tests.integration.ingest.test_monitoring import MONITORING, panels, rules
from tests.prometheus import prometheus, promtool

RULES = MONITORING / "rules.yml"
# minutes: all is well until QUIET, then it is not until LOUD
QUIET, LOUD = 10, 90


@dataclass(frozen=True, slots=True)
class Example:
    """series: name -> what it is while all is well, and what then, in promtool's
    notation for one sample a minute. value: what the summary says of it."""

    series: dict[str, tuple[str, str]]
    value: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def steady(name: str, well: int | str, ill: int, **labels: str) -> Example:
    calm = well if isinstance(well, str) else f"{well}x{QUIET - 1}"
    return Example({name: (calm, f"{ill}x{LOUD - QUIET}")}, str(ill), labels)


EXAMPLES = {
    "SluiceDown": steady(
        'up{job="sluice",instance="door:8000"}', 1, 0, job="sluice",
        instance="door:8000",
    ),
    "SluiceGaugesMissing": Example(
        {"sluice_datasources": (f"3x{QUIET - 1}", f"stale _x{LOUD - QUIET}")}
    ),
    "SluiceTableFailed": steady('sluice_alerts_open{kind="failed"}', 0, 2, kind="failed"),
    "SluiceTableDiffers": steady('sluice_alerts_open{kind="verification_mismatch"}', 0, 1),
    "SluiceTableStuck": steady('sluice_alerts_open{kind="stuck"}', 0, 3),
    "SluiceJobStalled": steady('sluice_alerts_open{kind="stalled"}', 0, 1),
    "SluiceLogNotRead": steady('sluice_alerts_open{kind="capture"}', 0, 1),
    "SluiceTableLate": steady('sluice_alerts_open{kind="late"}', 0, 4),
    "SluiceSchemaChanged": steady('sluice_alerts_open{kind="schema_change"}', 0, 5),
    "SluiceJobsWait": steady("sluice_jobs_oldest_queued_seconds", 1800, 1801),
    "SluiceHealthLow": steady('sluice_tables_by_score{band="0-49"}', 0, 6),
    "SluiceLakeUnreadable": steady("sluice_tables_unreadable", 0, 7),
    "SluiceMessagesWait": steady("sluice_alert_delivery_oldest_seconds", 3600, 3601),
    "SluiceOutboxLags": steady("sluice_outbox_lag_seconds", 2, 301),
    "SluiceEventsGivenUp": steady("sluice_outbox_given_up", 0, 1),
    "SluiceTargetPaused": steady('sluice_alert_targets{state="paused"}', 0, 2),
    "SluiceAuditLinesLost": steady("sluice_gateway_audit_lines_lost", 0, 8),
    "SluiceRequestsFail": Example(
        {
            'sluice_http_requests_total{status="200"}': (
                f"0+100x{QUIET - 1}", f"{QUIET * 100}+100x{LOUD - QUIET}",
            ),
            'sluice_http_requests_total{status="503"}': (
                f"0+4x{QUIET - 1}", f"{QUIET * 4}+100x{LOUD - QUIET}",
            ),
        }
    ),
}  # fmt: skip


@pytest.fixture
def said(world: Any, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """/metrics of a instance that has had trouble, and been asked."""
    monkeypatch.setattr(client, "gateway_state", lambda: {"audit_lost": 3})
    world.onboard("orders")
    world.until_live("orders")
    world.fail_with("sync", Fault.TERMINAL)
    sync_job.start_sync(world.pipeline("orders"), actor="x")
    world.until(lambda: world.pipeline("orders").state == "FAILED")
    compact_job.start_compaction(world.lake("orders"), actor="x")
    AlertTarget.objects.create(name="t", kind="webhook", address="x", failures=1)
    Rest()("GET", "/health/live")
    text: bytes = Rest()("GET", "/metrics").content
    return text


def test_promtool_takes_our_files() -> None:
    for what, file in (("rules", RULES), ("config", MONITORING / "prometheus.yml")):
        is_good, words = promtool("check", what, str(file))
        assert is_good, words


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_fires_when_it_should(rule: dict[str, Any], tmp_path: Path) -> None:
    example = EXAMPLES[rule["alert"]]
    summary = rule["annotations"]["summary"].replace("{{ $value }}", example.value)
    fired = {
        "exp_labels": rule["labels"] | example.labels,
        "exp_annotations": rule["annotations"] | {"summary": summary},
    }
    waits = int(rule.get("for", "0m").removesuffix("m"))
    moments: list[tuple[int, list[Any]]] = [(QUIET - 1, []), (LOUD, [fired])]
    if waits > 1:
        moments.append((QUIET + 1, []))
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": " ".join(values)}
            for name, values in example.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{at}m", "alertname": rule["alert"], "exp_alerts": wanted}
            for at, wanted in sorted(moments)
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    is_good, words = promtool("test", "rules", str(file))
    assert is_good, words


@pytest.mark.django_db
def test_panels_and_rules_ask_for_what_there_is(said: bytes) -> None:
    with prometheus(said, RULES) as server:
        server.until_scraped(3)
        for panel in panels():
            for target in panel["targets"]:
                found = server.query(target["expr"])
                assert found, (panel["title"], target["expr"])
                wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                for series in found:
                    assert wanted <= series["metric"].keys(), (panel["title"], series)
        for name in {name for one in EXAMPLES.values() for name in one.series}:
            # no request has failed here, and it answers at another address
            asked = re.sub(r'status="503"|,instance="[^"]*"', "", name)
            assert server.query(asked), name
