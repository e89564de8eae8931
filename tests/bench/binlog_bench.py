"""MariaDB's log alone: a file of it from a real server, decoded again and again.

Row changes per CPU second of this process: bytes → rows → Arrow → a segment's bytes.
Run: `python -m tests.bench.binlog_bench FILE`
"""

from __future__ import annotations

import functools
import json
import sys
from contextlib import closing
from pathlib import Path

from ingest.contract.table import ColumnSpec
from ingest.sources.mariadb.log.binlog import Commit, Decoder
from ingest.sources.mariadb.log.table_map import TableMap
from ingest.sources.mariadb.log.values import RowReader
from tests.bench.log_bench import CHANGES, decode, into_segments, spent
from tests.binlog import events_in
from tests.mariadb import MariaDbServer

# The columns of `tests.bench.log_bench`.
COLUMNS = (
    ColumnSpec("id", "id", "bigint(20)", "bigint"),
    ColumnSpec("customer", "customer", "int(11)", "int"),
    ColumnSpec("amount", "amount", "decimal(12,2)", "decimal(12,2)"),
    ColumnSpec("state", "state", "text", "string"),
    ColumnSpec("made", "made", "timestamp(6)", "timestamp"),
    ColumnSpec("is_paid", "is_paid", "tinyint(1)", "int"),
    ColumnSpec("note", "note", "text", "string"),
)
MAKE = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, amount decimal(12,2),
  state text, made timestamp(6) NULL, is_paid tinyint(1), note text)
"""
CHANGE = (
    """
INSERT INTO orders SELECT seq, seq % 1000, seq / 7.0, concat('state ', seq % 9),
  '2026-01-01' + interval seq second, seq % 2, repeat('x', 180)
FROM seq_{first}_to_{last}
""",
    "UPDATE orders SET amount = amount + 1 WHERE id BETWEEN {first} AND {last}",
    "DELETE FROM orders WHERE id BETWEEN {first} AND {last} AND id % 10 = 0",
)


def key_of(table: TableMap) -> tuple[int, ...] | None:
    return table.positions(("id",)) if table.name == "orders" else None


def record() -> list[bytes]:
    """Events of about `CHANGES` row changes."""
    server = MariaDbServer(("--max-binlog-size=1G",))
    server.start()
    try:
        with closing(server.connect()) as link, link.cursor() as cursor:
            cursor.execute("CREATE DATABASE bench")
            cursor.execute("USE bench")
            cursor.execute(MAKE)
            step = 1_000
            for first in range(1, CHANGES * 10 // 21, step):
                for statement in CHANGE:
                    cursor.execute(statement.format(first=first, last=first + step - 1))
                link.commit()
        (file,) = server.directory.rglob("binlog.000001")
        return list(events_in(file.read_bytes()))
    finally:
        server.destroy()


def segments_of(events: list[bytes]) -> int:
    @functools.cache
    def reader_of(table: TableMap) -> RowReader:
        return RowReader.of(table, COLUMNS)

    return into_segments(
        events,
        Decoder(key_of),
        read=lambda one: reader_of(one.table).batch(one),
        is_whole=lambda said: any(isinstance(what, Commit) for what in said),
    )


def main() -> int:
    events = record()
    count = decode(events, Decoder(key_of))
    figures = {
        "changes": count,
        "bytes_per_change": round(sum(map(len, events)) / count),
        "decoded_per_cpu_second": spent(lambda: decode(events, Decoder(key_of))),
        "segments_per_cpu_second": spent(lambda: segments_of(events)),
    }
    Path(sys.argv[1]).write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
