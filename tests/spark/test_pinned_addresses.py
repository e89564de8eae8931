"""A load and a sync go to the addresses they were given, whatever the name says."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace

import pytest

from catalog.schema.limits import KEEPALIVE
from ingest.contract.job import CLOCK, SecretAnswer, SnapshotWork
from ingest.contract.table import SourceSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.capture.parallel import enter_lane
from ingest.driver.run import run_job
from ingest.sources.connections import connections_of
from ingest.sources.port import Snapshot, SourceAccess, pinned_to
from ingest.sources.postgresql import connection as postgresql_connection
from tests.integration.discovery.tls_proxy import Authority, tls_in_front_of
from tests.source_access import SECRET
from tests.spark.lake_bench import LakeBench, assert_done, with_attempt

NOWHERE = "no-such-host.invalid"


@pytest.fixture
def bench(spark, source_pg, tmp_path):
    made = LakeBench(spark, source_pg.create_database("pinned"), tmp_path)
    yield made
    made.close()


def run(bench: LakeBench, spec, *addresses: str, authorities: str = ""):
    """As the driver runs it, the answer's addresses at hand."""
    answer = SecretAnswer(
        spec.source.secret_ref, bench.password, NOWHERE, addresses, authorities
    )
    job = JobRun(spec, lambda ref: bench.answer(ref) if ref == CLOCK else answer)
    enter_lane(job)
    return run_job(job, bench.spark, bench.gates)


def test_the_name_is_never_looked_up(
    bench: LakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning and reading: psycopg's connection and Spark's, at one server: a
    snapshot is known only to the one that exported it."""
    read_at: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        postgresql_connection,
        "pinned_to",
        lambda found, by: read_at.append(found.addresses) or pinned_to(found, by),
    )
    bench.sql("CREATE TABLE t (id int PRIMARY KEY, at timestamptz DEFAULT now())")
    bench.sql("INSERT INTO t SELECT g FROM generate_series(1, 50) g")
    table = bench.table("t", cursor="at")
    address = bench.source.host
    bench.source = replace(bench.source, host=NOWHERE)
    work = SnapshotWork(chunk_rows=20)
    spec = bench.spec("snapshot", table, snapshot=work)
    failed = run(bench, spec)
    assert (failed.outcome, failed.error.code) == ("transient", "source_unreachable")
    # the first place refuses: the next one is tried
    report = assert_done(run(bench, with_attempt(spec, 2), "127.0.0.99", address))
    assert report.facts["rows"] == 50
    later = bench.sync_spec(table, report.facts["bound"])
    assert_done(run(bench, later, "127.0.0.99", address))
    assert set(read_at) == {(address,)}


def test_the_name_stays_for_tls(bench: LakeBench, tmp_path) -> None:
    """Servers behind one address are told apart by the name in the hello."""
    bench.sql("CREATE TABLE t (id int PRIMARY KEY, at timestamptz DEFAULT now())")
    bench.sql("INSERT INTO t SELECT g FROM generate_series(1, 5) g")
    table = bench.table("t", cursor="at")
    said: set[str | None] = set()
    context = Authority(tmp_path, "authority").server_context()
    context.sni_callback = lambda socket, name, _: said.add(name)
    address, spec = bench.source.host, bench.source
    with tls_in_front_of(address, spec.port, context) as port:
        bench.source = replace(spec, host=NOWHERE, port=port, tls="require")
        work = SnapshotWork()
        load = bench.spec("snapshot", table, snapshot=work)
        assert assert_done(run(bench, load, address)).facts["rows"] == 5
    assert said == {NOWHERE}


def test_certificates_are_checked_by_both(bench: LakeBench, tmp_path) -> None:
    bench.sql("CREATE TABLE t (id int PRIMARY KEY)")
    bench.sql("INSERT INTO t SELECT g FROM generate_series(1, 5) g")
    table = bench.table("t")
    trusted, other = (Authority(tmp_path, name) for name in ("trusted", "other"))
    context = trusted.server_context(host=NOWHERE)
    address, spec = bench.source.host, bench.source
    with tls_in_front_of(address, spec.port, context) as port:
        bench.source = replace(spec, host=NOWHERE, port=port, tls="verify")
        load = bench.spec("snapshot", table, snapshot=SnapshotWork())
        for number, authorities in enumerate(["", str(other.path)], start=1):
            attempt = with_attempt(load, number)
            failed = run(bench, attempt, address, authorities=authorities)
            assert "certificate" in failed.error.message, failed
        report = run(
            bench, with_attempt(load, 3), address, authorities=str(trusted.path)
        )
        assert assert_done(report).facts["rows"] == 5
        # and JDBC alone, for psycopg has always refused first
        for path, expected in [(other.path, "path|PKIX|certif"), (trusted.path, "")]:
            access = SourceAccess(
                bench.source, bench.password, "sluice:x", (address,), str(path)
            )
            there, snapshot = connections_of(access), Snapshot("0-1")
            options = there.jdbc_options(access, "SELECT 1 AS c0", snapshot)
            del options["sessionInitStatement"]
            read = bench.spark.read.format("jdbc").options(**options)
            if expected:
                with pytest.raises(Exception, match=expected):
                    read.load().collect()
            else:
                assert [tuple(row) for row in read.load().collect()] == [(1,)]


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_sockets_of_readers_probe_as_all_others_do(spark, kind: str) -> None:
    """Made by each driver from the options that a reader gets."""
    jvm = spark._jvm
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        spec = SourceSpec(1, kind, NOWHERE, port, "shop", "ann", SECRET)
        access = SourceAccess(spec, "p", "sluice:x", ("127.0.0.1",))
        there = connections_of(access)
        options = there.jdbc_options(access, "SELECT 1", Snapshot("0-1"))
        assert options["tcpKeepAlive"] == "true"
        properties = jvm.java.util.Properties()
        for name in ("socketFactory", "socketFactoryArg", "tcpKeepAlive"):
            properties.setProperty(name, options[name])
        if kind == "postgresql":
            factory = jvm.org.postgresql.core.SocketFactoryFactory
            made = factory.getSocketFactory(properties).createSocket(NOWHERE, port)
        else:
            chosen = jvm.org.mariadb.jdbc.Configuration.parse(
                options["url"], properties
            )
            made = jvm.org.mariadb.jdbc.client.impl.ConnectionHelper.connectSocket(
                chosen, chosen.addresses().get(0)
            )
        names = jvm.jdk.net.ExtendedSocketOptions
        found = {
            "idle": made.getOption(names.TCP_KEEPIDLE),
            "interval": made.getOption(names.TCP_KEEPINTERVAL),
            "probes": made.getOption(names.TCP_KEEPCOUNT),
        }
        made.close()
    assert found == {name: KEEPALIVE[name] for name in found}
