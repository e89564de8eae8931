"""What others do to a source table while a job of ours reads it.

One table for both kinds of source. `{t}` is the source table. Every write that changes
values also sets the cursor, as timestamp capture asks of applications; a swap whose
rows are older than that sets them afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

# ids 1 to 12, written a day before any job
CREATE = {
    ("postgresql", "plain"): (
        "CREATE TABLE {t} (id int PRIMARY KEY, region text NOT NULL DEFAULT 'eu',"
        " v text, n int, at timestamptz NOT NULL DEFAULT now())",
    ),
    ("postgresql", "partitioned"): (
        "CREATE TABLE {t} (id int PRIMARY KEY, region text NOT NULL DEFAULT 'eu',"
        " v text, n int, at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (id)",
        "CREATE TABLE {t}_a PARTITION OF {t} FOR VALUES FROM (1) TO (7)",
        "CREATE TABLE {t}_b PARTITION OF {t} FOR VALUES FROM (7) TO (1000)",
    ),
    ("mariadb", "plain"): (
        "CREATE TABLE {t} (id int PRIMARY KEY, region varchar(9) NOT NULL DEFAULT 'eu',"
        " v varchar(40), n int, at timestamp(6) NOT NULL DEFAULT now(6))",
    ),
    ("mariadb", "partitioned"): (
        "CREATE TABLE {t} (id int PRIMARY KEY, region varchar(9) NOT NULL DEFAULT 'eu',"
        " v varchar(40), n int, at timestamp(6) NOT NULL DEFAULT now(6))"
        " PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (7),"
        " PARTITION b VALUES LESS THAN (1000))",
    ),
}
FILL = {
    "postgresql": (
        "INSERT INTO {t} SELECT g, 'eu', 'old', g, now() - interval '1 day'"
        " FROM generate_series(1, 12) g",
        "ANALYZE {t}",
    ),
    "mariadb": (
        "INSERT INTO {t} SELECT seq, 'eu', 'old', seq, now(6) - interval 1 day"
        " FROM seq_1_to_12",
        "ANALYZE TABLE {t}",
    ),
}


@dataclass(frozen=True, slots=True)
class Act:
    """Statements in their order, of one connection, by kind of source."""

    name: str
    postgresql: tuple[str, ...]
    mariadb: tuple[str, ...]
    shape: str = "plain"

    def script(self, kind: str, table: str) -> tuple[str, ...]:
        steps = self.postgresql if kind == "postgresql" else self.mariadb
        return tuple(step.format(t=table) for step in steps)


_NEW = "INSERT INTO {t} (id, v, n) SELECT {rows} 'new', 7 {source}"
_PG_NEW = _NEW.replace("{rows}", "g,").replace(
    "{source}", "FROM generate_series(3, 14) g"
)
_MY_NEW = _NEW.replace("{rows}", "seq,").replace("{source}", "FROM seq_3_to_14")
_LIKE = " (LIKE {t} INCLUDING ALL)"

REWRITES = (
    Act(
        "add-column-rewriting",
        (
            "BEGIN",
            "ALTER TABLE {t} ADD COLUMN stamp uuid DEFAULT gen_random_uuid()",
            "COMMIT",
        ),
        (
            "ALTER TABLE {t} ADD COLUMN stamp varchar(40) DEFAULT uuid(), ALGORITHM=COPY",
        ),
    ),
    Act(
        "alter-type-wider",
        (
            "BEGIN",
            "ALTER TABLE {t} ALTER n TYPE bigint",
            "UPDATE {t} SET n = 3000000000, at = now() WHERE id IN (2, 8)",
            "COMMIT",
        ),
        (
            "ALTER TABLE {t} MODIFY n bigint",
            "UPDATE {t} SET n = 3000000000, at = now(6) WHERE id IN (2, 8)",
        ),
    ),
    Act(
        "alter-type-to-text",
        ("BEGIN", "ALTER TABLE {t} ALTER n TYPE text USING 'no ' || n", "COMMIT"),
        (
            "ALTER TABLE {t} MODIFY n varchar(30)",
            "UPDATE {t} SET n = concat('no ', n), at = now(6)",
        ),
    ),
    Act(
        "set-unlogged-and-back",
        (
            "BEGIN",
            "ALTER TABLE {t} SET UNLOGGED",
            "COMMIT",
            "ALTER TABLE {t} SET LOGGED",
        ),
        ("ALTER TABLE {t} FORCE", "ALTER TABLE {t} ROW_FORMAT=COMPACT"),
    ),
    Act("vacuum-full", ("VACUUM FULL {t}",), ("OPTIMIZE TABLE {t}",)),
)
SWAPS = (
    Act(
        "truncate-and-insert",
        ("BEGIN", "TRUNCATE {t}", _PG_NEW, "COMMIT"),
        ("TRUNCATE TABLE {t}", _MY_NEW),
    ),
    Act(
        "truncate-and-the-same-rows",
        (
            "BEGIN",
            "CREATE TEMP TABLE kept_{t} AS TABLE {t}",
            "TRUNCATE {t}",
            "INSERT INTO {t} SELECT * FROM kept_{t}",
            "COMMIT",
        ),
        (
            "CREATE TABLE kept_{t} AS SELECT * FROM {t}",
            "TRUNCATE TABLE {t}",
            "INSERT INTO {t} (id, region, v, n) SELECT id, region, v, n FROM kept_{t}",
        ),
    ),
    Act(
        "drop-and-create",
        (
            "CREATE TABLE made_{t}" + _LIKE,
            "BEGIN",
            "DROP TABLE {t}",
            "CREATE TABLE {t} (LIKE made_{t} INCLUDING ALL)",
            _PG_NEW,
            "COMMIT",
        ),
        (
            "CREATE TABLE made_{t} LIKE {t}",
            "DROP TABLE {t}",
            "CREATE TABLE {t} LIKE made_{t}",
            _MY_NEW,
        ),
    ),
    Act(
        "rename-swap",
        (
            "BEGIN",
            "CREATE TABLE next_{t}" + _LIKE,
            _PG_NEW.replace("{t}", "next_{t}"),
            "ALTER TABLE {t} RENAME TO last_{t}",
            "ALTER TABLE next_{t} RENAME TO {t}",
            "COMMIT",
        ),
        (
            "CREATE TABLE next_{t} LIKE {t}",
            _MY_NEW.replace("{t}", "next_{t}"),
            "RENAME TABLE {t} TO last_{t}, next_{t} TO {t}",
            "UPDATE {t} SET at = now(6)",
        ),
    ),
)
COLUMNS = (
    Act(
        "add-column",
        (
            "ALTER TABLE {t} ADD COLUMN extra int",
            "INSERT INTO {t} (id, v, extra) VALUES (51, 'x', 1)",
        ),
        (
            "ALTER TABLE {t} ADD COLUMN extra int",
            "INSERT INTO {t} (id, v, extra) VALUES (51, 'x', 1)",
        ),
    ),
    Act(
        "drop-column",
        ("ALTER TABLE {t} DROP COLUMN n",),
        ("ALTER TABLE {t} DROP COLUMN n",),
    ),
    Act(
        "key-constraint",
        (
            "BEGIN",
            "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, region)",
            "INSERT INTO {t} (id, region, v) VALUES (1, 'us', 'second'), (9, 'us', 's')",
            "COMMIT",
        ),
        (
            "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, region)",
            "INSERT INTO {t} (id, region, v) VALUES (1, 'us', 'second'), (9, 'us', 's')",
        ),
    ),
)
PARTITIONS = (
    Act(
        "detach-partition",
        ("ALTER TABLE {t} DETACH PARTITION {t}_b", "DROP TABLE {t}_b"),
        ("ALTER TABLE {t} DROP PARTITION b",),
        shape="partitioned",
    ),
    Act(
        "attach-partition",
        (
            "BEGIN",
            "CREATE TABLE {t}_c (LIKE {t} INCLUDING ALL)",
            "INSERT INTO {t}_c (id, v) VALUES (1001, 'c'), (1002, 'c')",
            "ALTER TABLE {t} ATTACH PARTITION {t}_c FOR VALUES FROM (1000) TO (2000)",
            "COMMIT",
        ),
        (
            "ALTER TABLE {t} ADD PARTITION (PARTITION c VALUES LESS THAN (2000))",
            "INSERT INTO {t} (id, v) VALUES (1001, 'c'), (1002, 'c')",
        ),
        shape="partitioned",
    ),
    Act(
        "swap-partition",
        (
            "BEGIN",
            "CREATE TABLE {t}_n (LIKE {t} INCLUDING ALL)",
            "INSERT INTO {t}_n (id, v) VALUES (7, 'swapped'), (20, 'swapped')",
            "ALTER TABLE {t} DETACH PARTITION {t}_b",
            "ALTER TABLE {t} ATTACH PARTITION {t}_n FOR VALUES FROM (7) TO (1000)",
            "COMMIT",
        ),
        (
            "CREATE TABLE {t}_n LIKE {t}",
            "ALTER TABLE {t}_n REMOVE PARTITIONING",
            "INSERT INTO {t}_n (id, v) VALUES (7, 'swapped'), (20, 'swapped')",
            "ALTER TABLE {t} EXCHANGE PARTITION b WITH TABLE {t}_n",
            "UPDATE {t} SET at = now(6) WHERE id > 6",
        ),
        shape="partitioned",
    ),
    Act(
        "truncate-partition",
        (
            "BEGIN",
            "TRUNCATE {t}_b",
            "INSERT INTO {t} (id, v) VALUES (8, 'b')",
            "COMMIT",
        ),
        (
            "ALTER TABLE {t} TRUNCATE PARTITION b",
            "INSERT INTO {t} (id, v) VALUES (8, 'b')",
        ),
        shape="partitioned",
    ),
)
ROWS = (
    Act(
        "writes",
        (
            "INSERT INTO {t} (id, v) VALUES (60, 'w')",
            "UPDATE {t} SET v = 'w', at = now() WHERE id = 2",
            "DELETE FROM {t} WHERE id = 5",
        ),
        (
            "INSERT INTO {t} (id, v) VALUES (60, 'w')",
            "UPDATE {t} SET v = 'w', at = now(6) WHERE id = 2",
            "DELETE FROM {t} WHERE id = 5",
        ),
    ),
    Act(
        "key-values",
        ("UPDATE {t} SET id = id + 100, at = now() WHERE id IN (3, 11)",),
        ("UPDATE {t} SET id = id + 100, at = now(6) WHERE id IN (3, 11)",),
    ),
    Act(
        "open-transaction",
        (
            "BEGIN",
            "INSERT INTO {t} (id, v) VALUES (61, 'o')",
            "UPDATE {t} SET v = 'o', at = now() WHERE id IN (4, 10)",
            "COMMIT",
        ),
        (
            "BEGIN",
            "INSERT INTO {t} (id, v) VALUES (61, 'o')",
            "UPDATE {t} SET v = 'o', at = now(6) WHERE id IN (4, 10)",
            "COMMIT",
        ),
    ),
    Act(
        "rolled-back",
        ("BEGIN", "UPDATE {t} SET v = 'never', at = now()", "ROLLBACK"),
        ("BEGIN", "UPDATE {t} SET v = 'never', at = now(6)", "ROLLBACK"),
    ),
    Act(
        "prepared",
        (
            "BEGIN",
            "INSERT INTO {t} (id, v) VALUES (62, 'p')",
            "PREPARE TRANSACTION '{t}'",
            "COMMIT PREPARED '{t}'",
        ),
        (
            "XA START '{t}'",
            "INSERT INTO {t} (id, v) VALUES (62, 'p')",
            "XA END '{t}'",
            "XA PREPARE '{t}'",
            "XA COMMIT '{t}'",
        ),
    ),
    Act(
        "locked",
        (
            "BEGIN",
            "LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE",
            "UPDATE {t} SET v = 'l', at = now() WHERE id = 6",
            "COMMIT",
        ),
        (
            "LOCK TABLES {t} WRITE",
            "UPDATE {t} SET v = 'l', at = now(6) WHERE id = 6",
            "UNLOCK TABLES",
        ),
    ),
)
# done to the proxy or to the server, not by SQL
CUT, FREEZE, THAW, TRICKLE = "@cut", "@freeze", "@thaw", "@trickle"
RESTART, FAIL_OVER, RESTORE = "@restart", "@fail-over", "@restore"
CLOCK_AHEAD, CLOCK_BACK = "@clock-ahead", "@clock-back"
NETWORK = (
    Act("cut", (CUT,), (CUT,)),
    Act("silent-for-a-while", (FREEZE, THAW), (FREEZE, THAW)),
    Act("trickling", (TRICKLE,), (TRICKLE,)),
)
SERVER = (
    Act("restart", (RESTART,), (RESTART,)),
    Act(
        "open-transaction-lost",
        (
            "BEGIN",
            "UPDATE {t} SET v = 'never', at = now()",
            RESTART,
        ),
        (
            "BEGIN",
            "UPDATE {t} SET v = 'never', at = now(6)",
            RESTART,
        ),
    ),
    Act(
        "prepared-over-a-restart",
        (
            "BEGIN",
            "INSERT INTO {t} (id, v) VALUES (63, 'p')",
            "PREPARE TRANSACTION 'r{t}'",
            RESTART,
            "COMMIT PREPARED 'r{t}'",
        ),
        (
            "XA START 'r{t}'",
            "INSERT INTO {t} (id, v) VALUES (63, 'p')",
            "XA END 'r{t}'",
            "XA PREPARE 'r{t}'",
            RESTART,
            "XA COMMIT 'r{t}'",
        ),
    ),
)
_LOST = (
    "INSERT INTO {t} (id, v) VALUES (64, 'lost')",
    "UPDATE {t} SET v = 'lost', at = {now} WHERE id IN (2, 9)",
    RESTORE,
    "UPDATE {t} SET v = 'behind it', at = {now} WHERE id = 3",
)
_LATER = ("UPDATE {t} SET v = 'by that clock', at = now() WHERE id IN (4, 11)",)
# of a server that nobody else uses; a backup is made before the job
MOVES = (
    Act("fail-over", (FAIL_OVER,), (FAIL_OVER,)),
    Act(
        "restored",
        tuple(s.replace("{now}", "now()") for s in _LOST),
        tuple(s.replace("{now}", "now(6)") for s in _LOST),
    ),
    # a MariaDB has no other clock than its machine
    Act("clock-ahead", (CLOCK_AHEAD, *_LATER), ()),
    Act("clock-back", (CLOCK_BACK, *_LATER), ()),
)
_ALL = (*REWRITES, *SWAPS, *COLUMNS, *PARTITIONS, *ROWS, *NETWORK, *SERVER, *MOVES)
ACTS = {act.name: act for act in _ALL}
