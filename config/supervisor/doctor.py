"""The checks of `manage.py doctor`: each gives one line, ok or problem with advice.

No check raises: what cannot be found out is a problem with its reason.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from catalog.discovery.probe import run_probe
from catalog.models import Datasource, Table
from catalog.sources.access import access_for
from config.toolchain.combination import problem
from config.toolchain.installed import installed
from config.toolchain.jars import sha256_of
from config.toolchain.paths import extras_of, parts_home, pinned_jars, sluice_jar
from core.errors import InvalidRequest, SluiceError
from core.object_store import is_object_uri
from ingest.contract.driver_size import megabytes
from ingest.contract.records import TableRecord
from ingest.driver_host.cluster import MasterAway, StandaloneMaster, is_standalone
from ingest.lake.records import recorded
from ingest.maintenance.storage_check import prove_store
from ingest.models import SourceFollower
from ingest.pipelines.adoption import require_same_lake
from ingest.pipelines.capture_status import observed_of
from ingest.pipelines.followers import followers_of_sources

MEMORY_BYTES = 4 << 30
DISK_BYTES = 5 << 30
CONNECT_SECONDS = 5
POSTGRES_OLDEST = 14


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `advice` says what to do; empty when all is well."""

    what: str
    text: str
    advice: str = ""

    @property
    def is_ok(self) -> bool:
        return not self.advice

    def __str__(self) -> str:
        if self.is_ok:
            return f"ok       {self.what}: {self.text}"
        return f"PROBLEM  {self.what}: {self.text} -> {self.advice}"


def examine() -> list[Finding]:
    """Every check, in the order in which a start would meet them."""
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("versions", versions),
        ("jars", jars),
        ("memory", memory),
        ("disk", disk),
        ("storage", storage),
        ("spark", cluster),
        ("own drivers", own_drivers),
        ("broker", broker),
        ("database", database),
        ("lake tables", lake_tables),
        ("sources", sources),
        ("log capture", captures),
        ("directory", directory),
    ]
    found: list[Finding] = []
    for what, check in checks:
        try:
            found += check()
        except DatabaseError:
            found.append(Finding(what, "unknown", "the database comes first"))
        except (OSError, ValueError, SluiceError) as error:
            found.append(Finding(what, str(error).strip(), "see the message"))
    return found


def versions() -> list[Finding]:
    facts = installed()
    java, spark = facts.java or "-", facts.spark or "-"
    text = f"Python {facts.python}, Java {java}, Spark {spark}"
    line = problem(facts)
    return [Finding("versions", line or text, line and "see the message")]


def jars() -> list[Finding]:
    found = []
    for jar in pinned_jars(*extras_of(settings.SLUICE_LAKE_URI)):
        path = parts_home() / "jars" / jar.file_name
        if not path.exists():
            found.append(Finding("jars", f"{jar.file_name} is missing", "make setup"))
        elif sha256_of(path) != jar.sha256:
            found.append(Finding("jars", f"{path} is damaged", "make setup"))
        else:
            found.append(Finding("jars", f"{jar.file_name}, SHA-256 right"))
    own = sluice_jar()
    advice = "" if own.exists() else "make setup"
    text = own.name if own.exists() else "our own jar is not built for these sources"
    return [*found, Finding("jars", text, advice)]


def memory() -> list[Finding]:
    facts = psutil.virtual_memory()
    text = f"{_gib(facts.available)} available of {_gib(facts.total)}"
    if facts.total >= MEMORY_BYTES:
        return [Finding("memory", text)]
    advice = "Sluice with its demo wants 4 GiB: lower SLUICE_DRIVER_MEMORY and ENGINE"
    return [Finding("memory", text, advice)]


def disk() -> list[Finding]:
    home = Path(settings.SLUICE_HOME)
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{_gib(free)} free below {home}"
    advice = "" if free >= DISK_BYTES else "free at least 5 GiB, or move SLUICE_HOME"
    return [Finding("disk", text, advice)]


def storage() -> list[Finding]:
    if is_object_uri(settings.SLUICE_LAKE_URI):
        return [_object_store()]
    lake = Path(settings.SLUICE_LAKE_URI)
    try:
        lake.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=lake, prefix=".doctor-") as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        text = f"the lake {lake} is not writable: {error.strerror}"
        return [Finding("storage", text, "correct its permissions or SLUICE_LAKE_URI")]
    return [Finding("storage", f"the lake {lake} is writable")]


def _object_store() -> Finding:
    try:
        prove_store()
    except SluiceError as error:
        return Finding("storage", error.message, error.hint or "see the message")
    text = f"the lake {settings.SLUICE_LAKE_URI} takes conditional writes"
    return Finding("storage", text)


def cluster() -> list[Finding]:
    if not is_standalone(settings.SLUICE_SPARK_MASTER):
        return []
    try:
        workers, cores = StandaloneMaster(
            settings.SLUICE_SPARK_MASTER_UI, instance="doctor"
        ).room()
    except MasterAway as error:
        return [Finding("spark", error.message, error.hint)]
    text = f"{settings.SLUICE_SPARK_MASTER} has {workers} workers with {cores} cores"
    return [Finding("spark", text, "" if workers else "start a worker")]


def broker() -> list[Finding]:
    url = settings.SLUICE_REDIS_URL.replace("redis+socket://", "unix://")
    try:
        with redis.Redis.from_url(url, socket_timeout=CONNECT_SECONDS) as client:
            facts = client.info("server")
    except redis.RedisError as error:
        advice = "start it (`make demo`), or set SLUICE_REDIS_URL; nothing is lost"
        return [Finding("broker", f"Redis does not answer: {error}", advice)]
    return [Finding("broker", f"Redis {facts['redis_version']}")]


def database() -> list[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            number = int(cursor.fetchone()[0])
    except DatabaseError as error:
        text = f"the metadata database does not answer: {str(error).strip()}"
        advice = "start it (`make demo`), or set SLUICE_DATABASE_URL"
        return [Finding("database", text, advice)]
    text = f"PostgreSQL {number // 10000}.{number % 10000}"
    if number < POSTGRES_OLDEST * 10000:
        return [Finding("database", text, f"use PostgreSQL {POSTGRES_OLDEST} or newer")]
    return [Finding("database", text), _migrations()]


def _migrations() -> Finding:
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if waiting:
        text = f"{len(waiting)} migrations are not applied"
        return Finding("database", text, "python manage.py migrate")
    return Finding("database", "all migrations applied")


def lake_tables() -> list[Finding]:
    """Whether the database is the one that the lake belongs to."""
    ids = set(recorded(settings.SLUICE_LAKE_URI, TableRecord))
    try:
        known = Table.objects.filter(pk__in=ids, kind=Table.LAKE)
        unknown = len(ids) - known.count()
        require_same_lake()
    except InvalidRequest as error:
        return [Finding("lake tables", error.message, error.hint)]
    if not unknown:
        return [Finding("lake tables", f"all {len(ids)} are in the database")]
    text = f"the database does not know {unknown} that the lake has records of"
    advice = "python manage.py rebuild, before anything is added"
    return [Finding("lake tables", text, advice)]


def sources() -> list[Finding]:
    """Whether each enabled source lets us in. The full test is on its page."""
    rows = Datasource.objects.exclude(name="lake").order_by("name")
    return [_source(row) for row in rows] or [Finding("sources", "none registered")]


def _source(row: Datasource) -> Finding:
    what = f"source {row.name}"
    try:
        access = access_for(row, job="doctor")
    except SluiceError as error:
        return Finding(what, error.message, error.hint or "see the message")
    report = run_probe(access)
    if (step := report.failed) is not None:
        advice = step.hint or f"run the connection test of '{row.name}'"
        return Finding(what, step.message, advice)
    version = next(step.message for step in report.steps if step.name == "version")
    return Finding(what, version)


def captures() -> list[Finding]:
    """Whether the log of each source that shall be followed is read."""
    return [_capture(row) for row in followers_of_sources()]


def _capture(row: SourceFollower) -> Finding:
    name = row.datasource.name
    observed, reason, hint = observed_of(row, timezone.now())
    text = f"{name}: {observed}{f', {reason}' if reason else ''}"
    is_stopped = row.desired == SourceFollower.STOPPED
    if observed == "following" or (is_stopped and observed == "stopped"):
        return Finding("log capture", text)
    return Finding("log capture", text, hint or f"see the pipeline page of '{name}'")


def own_drivers() -> list[Finding]:
    """Whether a compaction may get a driver of its own: only with a shared lock."""
    if not settings.SLUICE_LAKE_LOCK:
        return []
    return [_shared_lock(), *_own_memory()]


def _shared_lock() -> Finding:
    """One server of several is enough to say that it is there."""
    hosts = settings.SLUICE_LAKE_LOCK.partition("/")[0]
    fault = ""
    for place in hosts.split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_SECONDS):
                return Finding("own drivers", f"the shared lock at {place} answers")
        except OSError as error:
            fault = f"the shared lock at {place} does not answer: {error}"
    return Finding("own drivers", fault, "start ZooKeeper, or correct SLUICE_LAKE_LOCK")


def _own_memory() -> list[Finding]:
    """On a cluster it is the workers that have to have it."""
    if is_standalone(settings.SLUICE_SPARK_MASTER):
        return []
    most, usual = settings.SLUICE_OWN_DRIVER_MEMORY, settings.SLUICE_DRIVER_MEMORY
    needed = (megabytes(most) + megabytes(usual)) << 20
    total = psutil.virtual_memory().total
    text = f"{most} beside a warm driver of {usual}, {_gib(total)} in all"
    advice = "" if total >= needed else "lower SLUICE_OWN_DRIVER_MEMORY"
    return [Finding("own drivers", text, advice)]


def directory() -> list[Finding]:
    """Whether the directory of log-ins answers; `manage.py ldap_check` tells more."""
    spec = settings.SLUICE_LDAP
    if spec is None:
        return []
    from catalog.access.ldap_directory import Directory  # costly, and seldom needed

    with Directory(spec) as looking:
        if spec.can_search:
            looking.connect()
    return [Finding("directory", f"{spec.servers.urls[0]} answers")]


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
