"""In Simplified Chinese no sentence or label of a page stays English.

What is stored as a sentence with its parameters is translated, too. Other texts of rows
are English for all readers: log lines, decisions of plans, what a source reported.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from catalog.discovery.choosing import uncarried
from catalog.discovery.store import HIDES_ROWS, NO_PRIVILEGE, UNSUPPORTED, VANISHED
from catalog.models import Column, SchemaVersion, Table
from catalog.schema.diff import SchemaChange
from core.errors import said_by
from core.models import Job
from core.sentences import Sentence, origins_in
from core.translation import translated
from ingest.actions.registry import ACTIONS
from ingest.alerts import delivery, webhook
from ingest.contract.members import TooNew, as_data
from ingest.driver_host.attempts import unanswered
from ingest.lake.files import storage_error
from ingest.maintenance import health_collector
from ingest.maintenance.duplicates import Duplicates, Signs, likely_cause
from ingest.maintenance.duplicates import facts_of as duplicated
from ingest.maintenance.rewinding import Reach, what_is_missed, what_the_source_says
from ingest.maintenance.verdict import Comparison
from ingest.maintenance.verdict import facts_of as compared
from ingest.models import Pipeline, TableHealth
from ingest.models.alerts import AlertDelivery, AlertTarget
from ingest.pipelines import needed_resync
from tests.integration.frontend.test_pages import PAGES
from tests.integration.frontend.world import HOSTILE, LONG, plan_of

CODE = {"code", "pre", "kbd", "script", "style", "textarea", "datalist"}
SHOWN = {"title", "aria-label", "placeholder", "alt"}
VOID = {"br", "hr", "img", "input", "link", "meta", "source", "path", "rect", "use"}
WORD = re.compile(r"[A-Za-z][A-Za-z]+")
# statements for the source with their comments, names of settings
CODE_IN_TEXT = re.compile(
    r"(?:https|postgresql|mariadb|mysql)://\S+|\b(?:GRANT|ALTER)\b[^;]*;(?: -- [a-z ]+)?|\b\w+_\w+\b"
    r"|(?:GET|POST) /api/[\w/:.{}-]+|manage\.py \w+|make demo"
)
UNITS = {"kB", "MB", "GB", "TB", "UTC"}
PRODUCTS = """
Sluice SQL REST JDBC HTTP Apache Hive HiveServer PyHive SQLAlchemy beeline DBeaver dbt Superset
Python PySpark Spark Django Celery Hudi PostgreSQL MySQL MariaDB Server Oracle SAP HANA
Slack Microsoft Teams MongoDB StarRocks Tablestore Kafka English TLS URL CSV webhook Webhook cron Cron Epoch
sluice schema Redis
"""
# what REST calls it too: privileges, settings, levels of a log, parts of the product
IDENTIFIERS = """
discover select operate manage require verify off NULL MERGE ON READ BUCKET info warn lake
gateway rest web cli system test user grant create database scheduler
postgresql id schedule everyone tls mask redact string null true
"""
# of the world that is shown, and of examples in help texts
NAMES = """
shop public orders customers events legacy free name amount updated at pager root ann eve
bi bigint decimal text numeric character varying timestamp with time zone db example internal https
hooks host port path order log table docs connect md Asia Shanghai MON FRI LIMIT FROM SELECT
WITH REPARTITION SQLSTATE HY SHOW DESCRIBE EXPLAIN USE SET
group row hash email region eu timeline
"""
ALLOWED = UNITS | {
    word for text in (PRODUCTS, IDENTIFIERS, NAMES) for word in text.split()
}
# refusals of services; REST has them in the same words
REFUSALS = (
    # parameters, as a driver and a source may report them
    "the cursor is gone",
    "terminating connection",
    "logical",
    "Not a directory",
)
# previews that are refused, for nothing of the kind is there
NOTHING_TO_DO = {
    "rollback", "unschedule-compaction", "restore", "drop-metadata-table", "follow-log",
    "follow-cursor", "repair", "join-shards",
}  # fmt: skip
# the labels of no table are refused
NO_PAGES = {"preferences", "sql-names", "grants-names", "alerts-badge", "tables-labels"}


class Shown(HTMLParser):
    """The texts of a page that people read, without code."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for name, value in attrs if name in SHOWN and value]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not CODE & set(self._open):
            self.texts.append(" ".join(data.split()))


def english_in(page: str, stored: re.Pattern[str]) -> Iterator[str]:
    shown = Shown()
    shown.feed(page)
    for text in shown.texts:
        rest = CODE_IN_TEXT.sub(" ", stored.sub(" ", text))
        if set(WORD.findall(rest)) - ALLOWED:
            yield text


def stored_sentences() -> re.Pattern[str]:
    """Any text with a space in it that a row has, the longest first."""
    found = {HOSTILE, LONG, *REFUSALS}
    for model in apps.get_models():
        if model._meta.app_label in {"catalog", "core", "ingest"}:
            for row in model.objects.all():
                found |= {t for t in texts_of(vars(row)) if " " in t.strip()}
    longest_first = sorted(found, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        with translation.override("zh-hans"):
            if translated(value) != value:
                return
        yield " ".join(value.split())
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each)


@pytest.fixture
def read_english(world, browse, redis_url):
    """What stays English on a page, asked for in Simplified Chinese."""
    client, stored = browse("root"), stored_sentences()

    def read(url: str, /, *, status: int = 200, **data: Any) -> list[str]:
        ask = client.post if data else client.get
        response = ask(url, data, HTTP_ACCEPT_LANGUAGE="zh-CN")
        assert response.status_code == status, url
        return list(english_in(response.content.decode(), stored))

    return read


def test_every_page(world, read_english):
    for name, (make, *_) in PAGES.items():
        if name not in NO_PAGES:
            assert read_english(reverse(f"frontend:{name}", args=make(world))) == []


def test_tables_in_every_state(world, read_english):
    for table in world.lake_tables.values():
        for page in ("", "/health", "/policy", "/commits"):
            assert read_english(f"/tables/{table.pk}{page}") == []


def test_previews_of_actions(world, read_english):
    table = world.lake_tables["orders"]
    for name in sorted(ACTIONS):
        status = 400 if name in NOTHING_TO_DO else 200
        assert read_english(f"/tables/{table.pk}/{name}", status=status) == [], name


def test_previews_of_what_is_not_there(world, read_english):
    table = world.lake_tables["orders"]
    for name in ("rollback", "unschedule-compaction", "restore"):
        asked = f"/tables/{table.pk}/{name}?instant=20260101010000000"
        assert read_english(asked, status=400) == [], name


def test_refusals_of_repairs(world, read_english):
    orders = world.lake_tables["orders"]
    url, asked = f"/tables/{orders.pk}", {"confirm": "orders"}
    Pipeline.objects.filter(lake_table=orders).update(state="REMOVING")
    assert read_english(f"{url}/savepoint", **asked) == []
    Pipeline.objects.filter(lake_table=orders).update(state="LIVE")
    assert read_english(f"{url}/resize", buckets="2", **asked) == []
    assert read_english(f"{url}/savepoint", status=302, **asked) == []
    assert read_english(f"{url}/clean", **asked) == []


def test_a_table_whose_files_cannot_be_read(world, read_english):
    row = TableHealth.objects.get(table=world.lake_tables["orders"])
    Path(row.table.path).parent.mkdir(parents=True, exist_ok=True)
    Path(row.table.path).write_text("no folder")
    health_collector.look_at(row)
    assert read_english(f"/tables/{row.table_id}/health") == []
    row.refresh_from_db()
    assert row.problem


def test_jobs_choices_and_kinds_of_sources(world, read_english):
    pages = [f"/jobs/{job.pk}" for job in world.jobs.values()]
    pages += [f"/sources/new?kind={kind}" for kind in ("mysql", "mariadb")]
    plan = f"/onboardings/{world.proposed.pk}"
    pages += [f"{plan}/tables/{one.pk}" for one in world.proposed.tables.all()]
    pages += [f"{plan}?show=blocked", "/alerts?state=all", "/health?band=bad"]
    for page in pages:
        assert read_english(page) == []


def test_refusals_of_forms(world, read_english):
    orders = world.lake_tables["orders"].pk
    for wrong in (
        {"owner": "user:customers"},
        {"owner": "group:customers"},
        {"owner": "customers"},
        {"tags": "标" * 60},
    ):
        assert read_english("/tables/labels", table=orders, **wrong) == []


def test_warnings_of_syncs(world, read_english):
    orders = world.lake_tables["orders"]
    warning = Sentence(
        "%(where)s has columns that are not synced: %(new)s",
        where="shop.orders",
        new="free",
    )
    report = {"warnings": [warning], "sentences": origins_in([warning])}
    Job.objects.create(
        kind="sync",
        subject="orders",
        subject_id=str(orders.pk),
        state="SUCCEEDED",
        report=report,
    )
    assert read_english("/sources/shop/pipeline") == []


def report(*, facts: dict[str, Any]) -> dict[str, Any]:
    """As the driver stores it."""
    return {"facts": as_data(facts), "sentences": origins_in(facts)}


def findings() -> Iterator[dict[str, Any]]:
    """Of each kind of job that ends with sentences about rows."""
    for found, position in (
        (Comparison(1, 1), ""),
        (Comparison(2, 2, pending=2, kept=1, ahead=2), "2026-01-01"),
        (Comparison(9, 9, missing=1, extra=2, different=3, pending=1), "2026-01-01"),
        (Comparison(9, 9, extra=1), ""),
    ):
        for is_log in (False, True):
            yield compared(
                found, keys={}, instant="1", position=position, is_log=is_log
            )
    seen = Duplicates(9, 7, within=1, across=1, conflicts=1)
    for signs in (Signs(4, highest=7), Signs(4, misplaced=1), Signs(4, loads=2)):
        cause = likely_cause(seen, signs)
        yield {"action": "deduplicate", **duplicated(seen, cause, examples=())}
    clean = duplicated(Duplicates(7, 7), "", examples=())
    yield {"action": "deduplicate", **clean}
    gone = Sentence("the table was dropped and created again")
    for reach in (Reach(later=1, unmarked=2), Reach(broken=gone), Reach(silent=gone)):
        told = what_the_source_says("amount", reach)
        missed = what_is_missed("amount", "2026-01-01")
        yield {"action": "restore", "restored": "1", "misses": [*told, *missed]}


def test_reports_of_verifications_and_repairs(world, read_english):
    orders = world.lake_tables["orders"]
    for facts in findings():
        job = Job.objects.create(
            kind="verify" if "verdict" in facts else "repair",
            subject="orders",
            subject_id=str(orders.pk),
            state="SUCCEEDED",
            payload={"table": orders.pk},
            report=report(facts=facts),
        )
        assert read_english(f"/jobs/{job.pk}") == [], facts


@pytest.mark.parametrize("gone", ["amount", "id", "updated_at", "name"])
def test_columns_that_changed(gone, world, read_english):
    source, lake = world.source_tables["orders"], world.lake_tables["orders"]
    Column.objects.filter(table=source, name=gone).delete()
    if gone == "name":
        Column.objects.filter(table=source, name="amount").update(type="string")
    Table.objects.filter(pk=source.pk).update(schema_fingerprint="now")
    note = {"state": "partial", "from": "2026-01-02T03:04:05Z"}
    Pipeline.objects.filter(source_table=source).update(
        plan=plan_of("orders") | {"fingerprint": "then"},
        drift={"email": note, "region": note},
    )
    for page in (f"/tables/{lake.pk}", "/tables/changes"):
        assert read_english(page) == []
    if gone == "amount":
        assert read_english(f"/tables/{lake.pk}/approve-schema-change") == []


def test_a_resync_that_is_needed(world, read_english):
    lake = world.lake_tables["orders"]
    changed = SchemaChange("widened", "amount", "decimal(12,2)", "string")
    pipeline = Pipeline.objects.get(lake_table=lake)
    needed_resync.note_needed(pipeline, [changed])
    assert needed_resync.is_noted(pipeline, without=[])
    assert not needed_resync.is_noted(pipeline, without=[changed])
    assert read_english(f"/tables/{lake.pk}") == []


def test_tables_that_a_plan_left_out(world, read_english):
    left_out = [
        asdict(
            uncarried(
                "public",
                "orders",
                status=status,
                reason=reason,
                login=("postgresql", "sluice"),
            )
        )
        for status, reason in (
            (NO_PRIVILEGE, "the datasource's user may not SELECT it"),
            (NO_PRIVILEGE, HIDES_ROWS),
            (UNSUPPORTED, ""),
            (VANISHED, ""),
        )
    ]
    for row in (world.proposed, world.onboarding):
        row.request |= {"uncarried": left_out, "sentences": origins_in(left_out)}
        row.save()
        assert read_english(f"/onboardings/{row.pk}") == []


def test_refusals_of_requests(world, read_english):
    url = "/sources/shop/onboard"
    for asked in (
        {"include": "public.orders"},
        {"include": "public.region"},
        {"include": "public.region\npublic.email"},
        {"include": "public.*", "target_database": "A-B"},
        {"include": "public.*", "shard_column": "region"},
        {"include": "public.*", "capture": "log"},
    ):
        assert read_english(url, **asked) == []


def test_reasons_of_jobs(world, read_english):
    orders = world.lake_tables["orders"]
    stored = said_by(TooNew(9, 1))
    for reason in (
        unanswered("cancel"),
        storage_error(OSError(errno.ENOSPC, "full"), Path("orders")).as_sentence,
        Sentence("malformed %(what)s: %(why)s", what=Sentence("job spec"), why=stored),
    ):
        job = Job.objects.create(
            kind="sync",
            subject="orders",
            subject_id=str(orders.pk),
            state="FAILED",
            reason=reason,
        )
        assert read_english(f"/jobs/{job.pk}") == [], reason


def test_a_target_that_nothing_reaches(world, read_english):
    long_ago = timezone.now() - timedelta(days=2)
    AlertTarget.objects.update(retry_at=None, failing_since=long_ago)
    AlertDelivery.objects.update(next_try_at=long_ago)
    claim = delivery.take()
    answer = webhook.post("http://127.0.0.1/", b"{}", {}, egress=webhook.Egress())
    assert delivery.record(claim, answer)
    assert read_english("/alert-targets/pager") == []


def test_refusals_about_alerts(world, read_english):
    hook = {"kind": "webhook", "name": "free", "url": "https://hooks.example.com/path"}
    for wrong in (
        {},
        {"secret": "x" * 20, "on": "shop"},
        {"secret": "x" * 20, "url": "https://root@hooks.example.com"},
        {"secret": "x" * 20, "name": "pager"},
        {"kind": "slack", "name": "free/free"},
        {"kind": "email", "name": "free", "address": "root"},
    ):
        assert read_english("/alert-targets", **{**hook, **wrong}) == [], wrong
    assert read_english("/alert-targets/free", status=404) == []
    for on, seconds in (("lake.free", "60"), ("lake.shop", "1"), ("shop.public", "60")):
        asked = {"on": on, "seconds": seconds}
        assert read_english("/alerts/mute", status=302, **asked) == []
        assert read_english("/alerts") == [], asked


def test_refusals_of_sources(world, read_english):
    given = {"kind": "postgresql", "name": "free", "port": "5432", "tls": "verify"}
    for wrong in ({}, {"name": "shop", "host": "db.example.com"}):
        asked = {**given, **wrong}
        assert read_english("/sources/new", status=422, **asked) == []


RULE = {"what": "row_filter", "on": "lake.shop.orders", "applies_to": "everyone"}
MASK = {**RULE, "what": "hash", "on": "lake.shop.orders.id"}


def test_refusals_of_rules(world, read_english):
    for wrong in (
        RULE,
        {**RULE, "expression": "id < 3", "on": "lake.shop"},
        {**RULE, "expression": "id < 3", "on": "lake.shop.order"},
        {**RULE, "expression": "id < 3", "on": "orders.shop.id"},
        {**RULE, "expression": "(select 1) < id"},
        MASK,
        {**MASK, "expression": "1"},
        {**MASK, "on": "lake.shop.orders"},
        {**MASK, "on": "lake.shop.orders.free"},
    ):
        assert read_english("/rules", **wrong) == [], wrong


def test_names_that_a_grant_may_have_meant(world, read_english):
    for on in ("free", "lake.free", "lake.shop.free", "shop.orders"):
        asked = {"principal": "user:ann", "privilege": "select", "on": on}
        assert read_english("/grants", **asked) == []


def test_what_a_search_found_tables_by(world, read_english):
    Table.objects.filter(pk=world.lake_tables["orders"].pk).update(comment="备注甲")
    for q in ("amount", "备注甲", "shop"):
        for page in ("/tables", "/find"):
            assert read_english(f"{page}?q={q}") == [], q


def test_versions_of_columns_and_a_table_that_runs_alone(world, read_english):
    table = world.lake_tables["orders"]
    column = {"name": "amount", "source_name": "amount", "nullable": True, "key": 0}
    for version, type in enumerate(("int", "bigint"), start=1):
        columns = [{**column, "source_type": "x", "lossy": "", "type": type}]
        SchemaVersion.objects.create(table=table, version=version, columns=columns)
    why = Sentence("out of memory while reading wide rows")
    Pipeline.objects.filter(lake_table=table).update(alone_reason=why)
    assert read_english(f"/tables/{table.pk}/columns") == []
    assert read_english(f"/tables/{table.pk}") == []


def test_parts_of_the_installation_that_are_away(world, read_english, settings):
    settings.SLUICE_REDIS_URL = "redis://127.0.0.1:1"
    settings.SLUICE_LAKE_URI = "/proc/lake"
    assert read_english("/system") == []


def test_retries_that_come_too_late(world, read_english):
    test = world.jobs["test"]
    Job.objects.filter(pk=test.pk).update(state="FAILED", exclusive_key="t")
    Job.objects.create(
        kind=test.kind, subject="shop", subject_id=test.subject_id, state="QUEUED",
        exclusive_key="t", unit="steps",
    )  # fmt: skip
    for state in ("FAILED", "SUCCEEDED"):
        Job.objects.filter(pk=test.pk).update(state=state)
        assert read_english(f"/jobs/{test.pk}/retry", status=302, sent=1) == []
        assert read_english(f"/jobs/{test.pk}") == []


def test_absent_things(world, read_english):
    assert read_english("/users/customers", status=404) == []
    assert read_english("/tables/0", status=404) == []


def read_login(client: Client, url: str = "/login", **data: str) -> list[str]:
    ask = client.post if data else client.get
    response = ask(url, data, HTTP_ACCEPT_LANGUAGE="zh-CN")
    assert response.status_code in {403, 503}, response.content
    return list(
        english_in(
            response.content.decode(), re.compile("the firm|Connection refused|Errno")
        )
    )


def test_refusals_of_logins(world, redis_url):
    for _ in range(20):
        shown = read_login(Client(), username="ann", password="wrong")
        assert shown == []


def test_refusals_of_sign_ins(world, provider, settings, redis_url):
    begun = Client()
    assert begun.get("/login/provider").status_code == 302
    for client, answer in (
        (Client(), "code=1&state=1"),
        (begun, "code=1&state=1"),
    ):
        assert read_login(client, f"/login/provider/back?{answer}") == []
    with socket.socket() as bound:  # nobody answers there
        bound.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{bound.getsockname()[1]}"
        settings.SLUICE_OIDC = replace(settings.SLUICE_OIDC, issuer=away)
        assert read_login(Client(), "/login/provider") == []
