"""Servers that the whole test session shares, each started when first asked for.

Settings are loaded against a throw-away home, never against the developer's own. The
database of Django, a second PostgreSQL to play a source, Redis and one Spark session
come from the same parts the product runs on.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from config.embedded import EmbeddedPostgres, EmbeddedRedis
from config.supervisor.home import make_keys
from tests.mariadb import MariaDbServer
from tests.product import product
from tests.source_server import SourceServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.object_store import ObjectStore

__all__ = ["product"]  # the fixture of the whole running product
pytest_plugins = ["tests.long_tests"]

HOME = Path(tempfile.mkdtemp(prefix="sluice-test-"))
# An example that takes long says something about the machine only.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
ROOT = Path(__file__).resolve().parent.parent

for _name in [name for name in os.environ if name.startswith("SLUICE_")]:
    if _name not in {
        "SLUICE_PARTS_CACHE",
        "SLUICE_MAVEN_URL",
        "SLUICE_NO_APT",
        "SLUICE_ACCEPTANCE_ROWS",
        "SLUICE_FUZZ_SQL",
        "SLUICE_FUZZ_SEED",
        "SLUICE_RIGHTS_PAIRS",
        "SLUICE_PREDICATES",
    }:
        del os.environ[_name]
# Images of containers ask for none: then each of some hundred processes compiles all of
# Sluice, and each worker the assertions of all tests, a second time and a third.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["SLUICE_HOME"] = str(HOME)
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
os.environ.setdefault("SLUICE_PARTS_CACHE", str(ROOT / ".sluice" / "parts"))
# Half of the processor time of a JVM that tests start went into compiling well what
# then runs for seconds. Drivers and engines of the product get it, too.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
os.environ["LC_ALL"] = "C.UTF-8"
os.environ["TZ"] = "UTC"
make_keys(HOME)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    settings.INSTALLED_APPS  # noqa: B018  loads the settings before pytest-django looks

    from django.test import TransactionTestCase

    from catalog.access.password_hash import PasswordHash
    from tests.emptied import empty

    TransactionTestCase._fixture_teardown = empty  # type: ignore[assignment]
    # the least that Argon2 does, each time that somebody is made or logs in
    PasswordHash.time_cost, PasswordHash.memory_cost = 1, 8


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there now stays to the end: to look through all of it for rubbish again
    and again took a tenth of the processor time of tests of the catalog."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Told by its environment, pytest-django would load a worker's settings before this
    file gives the worker a home: with our home, and keys that its subprocesses lack."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Each process has a home of its own, workers too."""
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def metadata_pg() -> Iterator[EmbeddedPostgres]:
    """The server of Django's database."""
    server = EmbeddedPostgres(HOME, "metadata", durable=False)
    server.start()
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(metadata_pg: EmbeddedPostgres) -> None:
    """Point Django to the server of this session (pytest-django asks for this)."""
    from django.db import connections

    address = metadata_pg.address
    connections["default"].settings_dict.update(
        # its socket: a statement by TCP costs both processors a fifth more
        HOST=str(metadata_pg.data),
        PORT=str(address.port),
        USER=address.username,
        PASSWORD=address.password,
        NAME="sluice",
    )
    metadata_pg.ensure_database("sluice")


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """It goes with its server. To drop it before fails where a session still ends."""
    return True


@pytest.fixture
def sluice_environment(
    db: None, metadata_pg: EmbeddedPostgres, redis_url: str
) -> dict[str, str]:
    """Environment of a subprocess that shares this test's database and broker.

    What the test wrote is visible to it only once committed, so the test asks for
    `transactional_db` too.
    """
    from django.db import connection

    database = str(connection.settings_dict["NAME"])
    return {
        **os.environ,
        "SLUICE_DATABASE_URL": metadata_pg.address.url(database),
        "SLUICE_REDIS_URL": redis_url,
    }


@pytest.fixture(scope="session")
def source_pg() -> Iterator[SourceServer]:
    """A second PostgreSQL, in the role of a source."""
    server = EmbeddedPostgres(HOME, "source", durable=False)
    address = server.start()
    yield SourceServer(address.host, address.port, address.username, address.password)
    server.destroy()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    """A MariaDB, in the role of a source; see `tests.mariadb` for what it can do."""
    server = MariaDbServer()
    try:
        server.start()
        yield server
    finally:
        server.destroy()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(HOME)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> str:
    """A running, empty broker, also put into Django's settings and the Celery app."""
    import redis
    from django.conf import settings

    from config.celery import app

    with contextlib.closing(redis.Redis.from_url(redis_server.url)) as client:
        client.flushall()
    monkeypatch.setattr(settings, "SLUICE_REDIS_URL", redis_server.url)
    monkeypatch.setattr(app.conf, "broker_url", redis_server.url)
    return redis_server.url


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """A server that speaks S3, with no bucket yet."""
    from tests.object_store import start_object_store

    store = start_object_store()
    yield store
    store.server.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one local Spark of this session, with Hudi and our jar on its class path."""
    from config.toolchain.javac import ensure_sluice_jar
    from config.toolchain.paths import spark_jars
    from ingest.driver.session import SessionSpec, start_session

    ensure_sluice_jar(lambda text: None)
    jars = spark_jars()
    # behind all others: the archive of classes is for a class path that begins alike,
    # and without it this JVM reads and checks them for seven seconds
    of_object_stores = spark_jars("s3")[len(jars) :]
    spec = SessionSpec(
        jars=[str(path) for path in jars],
        scratch=str(tmp_path_factory.mktemp("spark")),
        app_name="sluice-tests",
        # Hundreds of tables by the same few plans: the code of a plan that is one of the
        # last hundred alone is compiled again and again, a twelfth of what it computes.
        extra={"spark.sql.codegen.cache.maxEntries": "2000"},
    )
    with pytest.MonkeyPatch.context() as patch:
        # Its heap is large from the start to the end: while it grows and shrinks, the
        # collector marks all of it again and again, a sixth of what this JVM computes.
        large = "-XX:InitialRAMPercentage=50 -XX:MaxHeapFreeRatio=100"
        # One that has short pauses computes beside us, a twelfth of the whole again.
        plain = "-XX:+UseParallelGC"
        options = f"{os.environ['JDK_JAVA_OPTIONS']} {large} {plain}"
        patch.setenv("JDK_JAVA_OPTIONS", options)
        behind = os.pathsep.join(str(path) for path in of_object_stores)
        patch.setenv("SPARK_DIST_CLASSPATH", behind)
        session = start_session(spec)
    yield session
    session.stop()
