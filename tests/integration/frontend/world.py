"""A small world to look at: a source, lake tables in every state, jobs, people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from catalog.access.grants import grant
from catalog.access.users import create_user
from catalog.datasources import lake_database
from catalog.discovery.probe import Report
from catalog.models import Column, Database, Datasource, Table
from catalog.sources.access import SourceAccess
from catalog.sources.postgresql import log
from catalog.sources.postgresql.errors import source_error
from catalog.sources.steps import (
    NOTHING_TO_READ,
    WITHOUT_TLS,
    Outcome,
    Step,
    followable,
    readable_of,
)
from core.models import Job, JobLog
from core.sentences import Sentence
from ingest.contract.job import error_from
from ingest.lake.hudi.identity import SHARED_LOCK_PROVIDER
from ingest.models import Onboarding, Pipeline
from ingest.sources.failures import source_failure
from tests.integration.frontend.alerts import show_alerts
from tests.integration.frontend.healths import ILL, WELL, show_health

PASSWORD = "correct horse battery"
HOSTILE = '<script>alert("x")</script>\'"&'
LONG = "an_exceedingly_long_table_name_that_somebody_generated_" * 3
CHINESE = "订单明细表"


@dataclass
class World:
    admin: User
    ann: User
    stranger: User
    source: Datasource
    source_tables: dict[str, Table]
    lake_tables: dict[str, Table]
    onboarding: Onboarding
    proposed: Onboarding
    jobs: dict[str, Job]


COLUMNS = [
    ("id", "bigint", "bigint", False, 1),
    ("name", "text", "string", True, 0),
    ("订单号", "character varying(40)", "string", True, 0),
    ("amount", "numeric(12,2)", "decimal(12,2)", True, 0),
    ("updated_at", "timestamp with time zone", "timestamp", False, 0),
]


STATES = {
    "orders": ("LIVE", ""),
    "customers": ("SNAPSHOTTING", ""),
    "events": ("PAUSED", Sentence("paused by %(actor)s", actor="root")),
    "legacy": ("FAILED", f"the column {HOSTILE} is gone: choose another cursor"),
    CHINESE: ("NEEDS_RESYNC", "the source no longer reaches back"),
    LONG: ("CATCHING_UP", ""),
}


def build() -> World:
    admin = create_user("root", PASSWORD, is_admin=True, by="test")
    ann = create_user("ann", PASSWORD, groups=["bi"], by="test")
    stranger = create_user("eve", PASSWORD, by="test")
    source = _source()
    public = Database.objects.create(datasource=source, name="public")
    names = ["orders", "customers", "events", "legacy", CHINESE, LONG, HOSTILE, "free"]
    source_tables = {name: _table(public, name) for name in names}
    lake = lake_database("shop")
    onboarding = Onboarding.objects.create(
        datasource=source,
        request={"datasource": "shop", "include": ["public.*"]},
        requested_by="root",
        approved_at=timezone.now(),
        approved_by="root",
    )
    lake_tables = {}
    for name, (state, reason) in STATES.items():
        lake_tables[name] = _carried(
            lake, source_tables[name], onboarding, state=state, reason=reason
        )
    show_health(lake_tables["events"], WELL)
    show_health(lake_tables["orders"], ILL)
    show_alerts(lake_tables)
    proposed = _proposed(source, source_tables)
    grant(principal="group:bi", privilege="select", on="lake.shop.orders", by="root")
    grant(principal="user:ann", privilege="discover", on="shop", by="root")
    jobs = _jobs(lake_tables, source)
    return World(
        admin=admin,
        ann=ann,
        stranger=stranger,
        source=source,
        source_tables=source_tables,
        lake_tables=lake_tables,
        onboarding=onboarding,
        proposed=proposed,
        jobs=jobs,
    )


def _source() -> Datasource:
    return Datasource.objects.create(
        name="shop",
        kind="postgresql",
        host="db.example.internal",
        port=5432,
        database="shop",
        username="sluice",
        secret="SECRET-CANARY",
        tested_at=timezone.now(),
        test_result=_report().as_json(),
        discovered_at=timezone.now(),
        table_count=8,
    )


def _proposed(source: Datasource, tables: dict[str, Table]) -> Onboarding:
    """Not approved yet: one table that could go, one that waits for a choice."""
    proposed = Onboarding.objects.create(
        datasource=source, request={"datasource": "shop"}, requested_by="root"
    )
    for name in (HOSTILE, "free"):
        Pipeline.objects.create(
            onboarding=proposed,
            source_table=tables[name],
            capture="timestamp",
            policy={"schedule": {"every_seconds": 30}},
            state="PROPOSED",
            status_reason="" if name == "free" else "choose a key",
            plan=plan_of(name, blocked="" if name == "free" else "choose a key"),
        )
    return proposed


def plan_of(name: str, *, blocked: str = "") -> dict[str, Any]:
    def proposal(value: Any, reason: str) -> dict[str, Any]:
        return {"value": value, "reason": reason, "is_chosen": False, "choices": []}

    columns = [
        {
            "source_name": source,
            "name": source,
            "source_type": kind,
            "type": lake,
            "nullable": nullable,
            "key": key,
            "lossy": "",
        }
        for source, kind, lake, nullable, key in COLUMNS
    ]
    return {
        "v": 1,
        "source": f"public.{name}",
        "database": "shop",
        "is_target_chosen": False,
        "name": name.lower(),
        "fingerprint": "",
        "proposals": {
            "record_key": proposal(["id"], "the primary key of the source table"),
            "cursor": proposal("updated_at", "named like a change time, never NULL"),
            "partition_by": proposal([], "not partitioned: buckets spread the data"),
            "buckets": proposal(2, "about 120,000 rows of 100 bytes"),
        },
        "steps": [] if blocked else _steps_for(name, columns),
        "warnings": ["deleted rows stay in the lake until a resync"],
        "excluded": [],
        "blocked": blocked,
    }


def _steps_for(name: str, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "step": "CreateTable",
            "summary": f"create shop.{name}: 5 columns, 2 buckets",
            "database": "shop",
            "name": name.lower(),
            "path": f"/lake/shop/{name}",
            "record_key": ["id"],
            "row_hash": False,
            "partition_by": [],
            "buckets": 2,
            "columns": columns,
        },
        {
            "step": "LoadSnapshot",
            "summary": "load about 120,000 rows as one commit",
            "estimated_rows": 120_000,
            "staging_bytes": 48_000_000,
        },
    ]


def _table(database: Database, name: str, **more: Any) -> Table:
    values: dict[str, Any] = {
        "source_name": name,
        "estimated_rows": 120_000,
        "estimated_bytes": 12_000_000,
        **more,
    }
    table = Table.objects.create(database=database, name=name, **values)
    Column.objects.bulk_create(
        Column(
            table=table,
            position=position,
            name=source,
            source_name=source,
            source_type=kind,
            type=lake,
            nullable=nullable,
            key=key,
        )
        for position, (source, kind, lake, nullable, key) in enumerate(COLUMNS, start=1)
    )
    return table


def _carried(
    lake: Database, source: Table, onboarding: Onboarding, *, state: str, reason: str
) -> Table:
    now = timezone.now()
    is_loaded = state != "SNAPSHOTTING"
    table = _table(
        lake,
        source.name,
        source_name=f"public.{source.name}",
        kind=Table.LAKE,
        record_key=["id"],
        cursor="updated_at",
        buckets=2,
        path=f"{settings.SLUICE_LAKE_URI}/shop/t{source.pk}",
        identity={"lock_provider": SHARED_LOCK_PROVIDER} if state == "LIVE" else {},
        status=state,
        status_reason=reason,
        is_queryable=is_loaded,
        caught_up_at=now - timedelta(seconds=12) if is_loaded else None,
        last_commit_instant="20261121113000123" if is_loaded else "",
        last_commit_at=now - timedelta(minutes=3) if is_loaded else None,
        last_commit_epoch=41 if is_loaded else None,
    )
    Pipeline.objects.create(
        onboarding=onboarding,
        source_table=source,
        lake_table=table,
        capture="timestamp",
        policy={"schedule": {"every_seconds": 30}},
        state=state,
        status_reason=reason,
        plan=plan_of(source.name),
        position="2026-11-21T11:29:55.123456Z" if is_loaded else "",
        consistency="per_chunk" if is_loaded else "",
        due_at=now + timedelta(seconds=20) if state == "LIVE" else None,
    )
    return table


def _jobs(tables: dict[str, Table], source: Datasource) -> dict[str, Job]:
    now = timezone.now()
    queued = Job.objects.create(
        kind="sync",
        subject="lake.shop.orders",
        subject_id=str(tables["orders"].pk),
        exclusive_key="t2:write",
        state="QUEUED",
        payload={"table": tables["orders"].pk},
        reason="another job works on this table",
        requested_by="scheduler",
    )
    explained = source_failure("57P05", "terminating connection")
    error = error_from(explained.outcome, explained.error)
    slow = Job.objects.create(
        kind="snapshot",
        subject="lake.shop.legacy",
        subject_id=str(tables["legacy"].pk),
        state="FAILED",
        error_code=error.code,
        error_message=error.message,
        error_hint=error.hint,
        attempts=3,
        started_at=now - timedelta(minutes=9),
        finished_at=now - timedelta(minutes=8),
    )
    failed = Job.objects.create(
        kind="sync",
        subject="lake.shop.legacy",
        subject_id=str(tables["legacy"].pk),
        state="FAILED",
        error_code="cursor_gone",
        error_message=f"the column {HOSTILE} is gone from public.legacy",
        error_hint="choose another cursor, or resync",
        attempts=3,
        started_at=now - timedelta(minutes=5),
        finished_at=now - timedelta(minutes=4),
        report={"outcome": "terminal"},
    )
    running, tested = _running(tables["customers"]), _tested(source)
    return {
        "running": running,
        "queued": queued,
        "failed": failed,
        "slow": slow,
        "test": tested,
    }


def _running(table: Table) -> Job:
    now = timezone.now()
    running = Job.objects.create(
        kind="snapshot",
        subject="lake.shop.customers",
        subject_id=str(table.pk),
        exclusive_key="t1:write",
        state="RUNNING",
        phase="reading chunks",
        done=84_000,
        total=120_000,
        unit="rows",
        attempts=1,
        requested_by="root",
        queued_at=now - timedelta(seconds=42),
        started_at=now - timedelta(seconds=40),
        progress_at=now - timedelta(seconds=1),
    )
    for event, before, after in (
        ("enqueue", "PLANNED", "QUEUED"),
        ("claim", "QUEUED", "LAUNCHING"),
        ("accepted", "LAUNCHING", "RUNNING"),
    ):
        running.events.create(event=event, before=before, after=after, actor="root")
    said = [("INFO", f"chunk {number} of 230 staged") for number in range(230)]
    said.append(("WARN", f"odd value in {HOSTILE}"))
    JobLog.objects.bulk_create(
        JobLog(job=running, level=level, message=message) for level, message in said
    )
    return running


def _tested(source: Datasource) -> Job:
    return Job.objects.create(
        kind="test",
        subject=source.name,
        subject_id=str(source.pk),
        exclusive_key=f"test:{source.pk}",
        state="RUNNING",
        phase="login",
        done=3,
        total=7,
        unit="steps",
        report=_report(most=3).as_json(),
        started_at=timezone.now(),
    )


def _report(most: int = 8) -> Report:
    """Of a test whose login is refused, up to as many steps."""
    access = SourceAccess(
        host="db.example.internal", port=5432, database="shop", username="sluice",
        password="", kind="postgresql",
    )  # fmt: skip
    words = 'FATAL: password authentication failed for user "sluice"'
    refused = source_error(psycopg.OperationalError(words), access)
    server = (False, "replica", False, False, False, False, 0, 0)
    lacks = tuple(log.lacks_of(server, "sluice"))
    found = [
        ("resolve", Outcome(Sentence("%(host)s is %(addresses)s", host="db", addresses="10.0.0.7"))),
        ("tcp", Outcome(Sentence("%(place)s accepts connections", place="10.0.0.7:5432"))),
        ("tls", WITHOUT_TLS),
        ("version", Outcome(Sentence("%(server)s, a standby", server="PostgreSQL 16"))),
        ("privileges", readable_of(9, 7, user="sluice", grants=(), missing=["GRANT y;"], stats_grant="GRANT x;")),
        ("sample", NOTHING_TO_READ),
        ("log", followable(lacks, log.doubts_of("off", "1d"))),
    ]  # fmt: skip
    steps = [
        Step(
            name,
            "skipped" if each.is_skipped else "ok",
            each.message,
            each.hint,
            seconds=0.012,
        )
        for name, each in found
    ]
    steps.insert(
        3,
        Step(
            "login", "failed", refused.message, refused.hint, refused.code, words, 0.1
        ),
    )
    return Report(tuple(steps[:most]), {})
