"""The server under a source: it fails over, goes back to an earlier moment, and its
clock jumps. Each works in place, on the one data directory that there is.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol
from urllib.parse import urlparse

import psycopg

from config.embedded.postgres import EmbeddedPostgres
from tests.hostile import acts
from tests.hostile.proxy import WireProxy
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench

# Far beyond what clocks are corrected by, and what a driver lets its own be ahead.
AHEAD_SECONDS, BACK_SECONDS = 3_600, -3_600
CLOCKS = frozenset({"clock-ahead", "clock-back"})
MOVED = CLOCKS | {"fail-over", "restored"}


class Host(Protocol):
    """After each the bench's own connection is new, and `port` is where it answers."""

    @property
    def port(self) -> int: ...

    def back_up(self) -> None:
        """Keeps what there is now for `restore`; every connection breaks."""
        ...

    def restore(self) -> None:
        """There is again what there was when it was backed up."""
        ...

    def fail_over(self) -> None:
        """Another server goes on with all that was committed."""
        ...

    def set_clock(self, seconds: int) -> None:
        """Ahead of the real time by so much; 0 = right again."""
        ...


class PostgresHost:
    """A standby that has all of the log is promoted: the same files, a new timeline."""

    def __init__(self, server: EmbeddedPostgres, bench: LakeBench) -> None:
        self._server, self._bench = server, bench
        # a child ends with the thread that started it
        self._starter = ThreadPoolExecutor(1)
        self._kept = server.data.with_name(f"{server.data.name}.kept")

    @property
    def port(self) -> int:
        return self._server.address.port

    def back_up(self) -> None:
        self._again(lambda: _copy(self._server.data, self._kept))

    def restore(self) -> None:
        self._again(lambda: _copy(self._kept, self._server.data))

    def fail_over(self) -> None:
        self._again((self._server.data / "standby.signal").touch)
        self._bench.link.execute("SELECT pg_promote()")

    def set_clock(self, seconds: int) -> None:
        """Jobs look nowhere but in pg_catalog; of this database alone."""
        self._bench.link.execute("SET allow_system_table_mods = on")
        for name, real in (
            ("clock_timestamp", "statement_timestamp()"),
            ("now", "transaction_timestamp()"),
        ):
            self._bench.link.execute(
                f"CREATE OR REPLACE FUNCTION pg_catalog.{name}() RETURNS timestamptz"
                f" LANGUAGE sql AS $$ SELECT {real} + interval '{seconds} seconds' $$"
            )

    def _again(self, between: Callable[[], object]) -> None:
        self._bench.link.close()
        self._server.stop()
        between()
        address = self._starter.submit(self._server.start).result()
        database = urlparse(self._bench.dsn).path.strip("/")
        self._bench.dsn = address.url(database)
        self._bench.link = psycopg.connect(self._bench.dsn, autocommit=True)


class MariadbHost:
    """A replica that has all of the log takes over: the same rows, another server."""

    def __init__(self, bench: MariadbBench) -> None:
        self._bench = bench

    @property
    def port(self) -> int:
        return self._bench.server.port

    def back_up(self) -> None:
        self._bench.again(self._bench.server.back_up)

    def restore(self) -> None:
        self._bench.again(self._bench.server.restore)

    def fail_over(self) -> None:
        self._bench.again(self._bench.server.become_another)

    def set_clock(self, seconds: int) -> None:
        raise NotImplementedError("its clock is the machine's")


def network_of(
    bench: LakeBench, host: Host | None, proxy: WireProxy
) -> dict[str, Callable[[], object]]:
    """What statements of acts are that are no SQL. Whoever stops or starts the server
    is alone meanwhile."""
    turn = threading.Lock()

    def alone(move: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            with turn:
                move()
                if host is not None:
                    proxy.follow(host.port)

        return run

    found: dict[str, Callable[[], object]] = {
        acts.CUT: proxy.cut,
        acts.FREEZE: proxy.freeze,
        acts.THAW: proxy.thaw,
        acts.TRICKLE: proxy.trickle,
        acts.RESTART: alone(bench.restart),
    }
    if host is None:
        return found
    return found | {
        acts.FAIL_OVER: alone(host.fail_over),
        acts.RESTORE: alone(host.restore),
        acts.CLOCK_AHEAD: lambda: host.set_clock(AHEAD_SECONDS),
        acts.CLOCK_BACK: lambda: host.set_clock(BACK_SECONDS),
    }


def _copy(origin: object, target: object) -> None:
    shutil.rmtree(str(target), ignore_errors=True)
    subprocess.run(["cp", "-a", str(origin), str(target)], check=True)
