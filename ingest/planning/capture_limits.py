"""What reading a table promises, what it cannot see, and what is done about that.

The one home of these sentences: plans show those for the table at hand, and the tables
of docs/reading.md are written from here, which a test holds. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from catalog.sources.kinds import Family
from catalog.sources.registry import KINDS, kind_named
from core.sentences import Sentence, as_sentence, joined
from ingest.planning.facts import Conditions, TableFacts


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one case of a source or a table; "" where it adds nothing.

    snapshot  what a load shows
    sync      what an incremental sync shows
    unseen    what neither of them sees
    does      what the product does about that
    """

    title: str
    snapshot: str = ""
    sync: str = ""
    unseen: str = ""
    does: str = ""


_SHARED_SNAPSHOT = (
    "all chunks of one attempt show one moment: they share an exported"
    " snapshot; chunks of several attempts, and of a load that waited for long for"
    " its turn at the source, show several moments, which the table says"
)
_SNAPSHOT_PER_CHUNK = (
    "each chunk shows its own moment: connections share no snapshot"
    " without a lock; the first syncs bring what changed since then"
)


def _of_family(family: Family, *, shares_snapshots: bool) -> Promise:
    return Promise(
        family.title,
        snapshot=_SHARED_SNAPSHOT if shares_snapshots else _SNAPSHOT_PER_CHUNK,
        sync="the changed rows of one sync show one moment",
    )


SOURCES: dict[str, Promise] = {
    **{
        kind.family.name: _of_family(
            kind.family, shares_snapshots=kind.shares_snapshots
        )
        for kind in KINDS.values()
    },
    "primary": Promise(
        "A primary",
        sync="the high watermark stays behind the clock by the safety lag; it stays as"
        " far behind the start of the oldest open or prepared transaction, so no row"
        " below it can still commit",
        unseen="without the right to see transactions of others, rows that commit later"
        " than the safety lag after their cursor value; the same of sessions of"
        " PostgreSQL with track_activities = off; there also those of a procedure that"
        " commits within its CALL, where they get statement_timestamp(), the beginning"
        " of that CALL; on MariaDB and MySQL those of engines whose transactions no"
        " list shows (MyRocks, NDB: all but InnoDB); those of a transaction that has"
        " ended and seems to have begun later, as it first waited for a table's lock"
        " (ALTER TABLE, LOCK TABLES); or was slow before it touched"
        " InnoDB; and those that a stored function"
        " or procedure writes after slow work: the list of processes shows when its"
        " inner statement began",
        does="every sync says which right is missing, and while there is such a"
        " session; a 'lag_seconds' by policy helps that is longer than such a"
        " statement; such rows are late rows, see below",
    ),
    "standby": Promise(
        "A standby, a replica or one of several members of a cluster (Galera, Group"
        " Replication)",
        snapshot="the rows that have been applied there",
        sync="the high watermark stays behind the time up to which changes are known to"
        " have been applied, by the safety lag. On PostgreSQL that time is the last"
        " commit or checkpoint that was replayed; or the last message of the primary,"
        " which target_session_attrs=primary in primary_conninfo proves to be one; on"
        " a replica of MariaDB or MySQL it is at least slave_net_timeout (60 s) ago:"
        " it may be cut off for so long before it notices; on a member, 15 s"
        " ago",
        unseen="transactions that are open on other servers: a row that commits later"
        " than the safety lag after its cursor value is missed; on a replica of MariaDB"
        " or MySQL, what it has yet to receive after its network was down; and whether"
        " it follows a replica, before a change of that one's primary came through;"
        " on MySQL without GTIDs that is never seen",
        does="refuses timestamp capture until 'lag_seconds' is set by policy, longer"
        " than the longest transaction of other servers and than the network is ever"
        " down; each sync checks again whether the server is one; it waits while"
        " replication is stopped, and while a replica of MariaDB or MySQL follows"
        " another replica; it warns when nothing was replayed for 5 minutes",
    ),
    "unknown_role": Promise(
        "A MariaDB or MySQL server whose login may not ask whether it is a replica",
        unseen="what a replica applies later than the safety lag",
        does="takes it for a primary unless it is read-only, and says so; with SLAVE"
        " MONITOR (MySQL: REPLICATION CLIENT) it asks",
    ),
}

TABLES: dict[str, Promise] = {
    "table": Promise(
        "A plain table",
        snapshot="its rows",
        sync="rows whose cursor value has grown beyond the position",
    ),
    "partitioned table": Promise(
        "A partitioned table",
        snapshot="the rows of all partitions; partitions are no tables of their own",
        sync="like a plain table, over all partitions",
        unseen="a partition that is attached with older cursor values, and that one was"
        " detached",
        does=":verify counts both as differences; a resync mends them",
    ),
    "children": Promise(
        "A parent of PostgreSQL whose children inherit from it",
        snapshot="its own rows and those of its children, as a SELECT shows them; each"
        " child is a table of its own, too",
        sync="like its snapshot",
        unseen="keys that a child repeats: the parent's key does not cover them",
        does="takes the key for not unique: a load and a sync that find a key twice"
        " stop, write nothing and say so",
    ),
    "foreign": Promise(
        "A foreign table, or one with foreign partitions or children",
        snapshot="the rows that the other server sends, each chunk at its own moment",
        unseen="transactions of the other server, so rows of theirs would be passed"
        " over for good by timestamp capture",
        does="refuses timestamp capture; a table that is foreign as a whole is not"
        " synced, one with foreign parts is loaded with this warning",
    ),
    "view": Promise(
        "A view",
        unseen="the tables behind it, their keys and transactions",
        does="does not sync it: sync the tables, and make the view in SQL of the lake",
    ),
    "materialized view": Promise(
        "A materialised view",
        unseen="a REFRESH: its rows are older than the moment they appear",
        does="does not sync it: sync the tables behind it",
    ),
    "unlogged": Promise(
        "An unlogged table, or one with unlogged partitions",
        snapshot="its rows",
        sync="like a plain table",
        unseen="that a crash of the source emptied it; a standby has none of its rows",
        does="keeps the rows in the lake until a resync; :verify counts them",
    ),
    "versioned": Promise(
        "A temporal table (system-versioned in MariaDB)",
        snapshot="the rows that are current; former versions are not read",
        sync="rows that are current and whose cursor value has grown",
        unseen="former versions, and that a row was ended",
        does="leaves ended rows in the lake until a resync; :verify counts them",
    ),
}

TRAPS: dict[str, Promise] = {
    "deletes": Promise(
        "Deleted rows",
        unseen="deleted rows stay in the lake until a resync",
        does=":verify counts them",
    ),
    "keys_changed": Promise(
        "A changed key",
        unseen="a row whose key changes is there twice afterwards, under the former key"
        " too, until a resync",
        does=":verify counts the former one",
    ),
    "emptied": Promise(
        "TRUNCATE, DROP and CREATE",
        unseen="rows that a TRUNCATE removed stay in the lake until a resync; so do"
        " those of a table that was dropped and created again",
        does="a sync that finds another table under the name, or new files of its rows"
        " and former rows gone, stops and asks for a resync; on MariaDB a TRUNCATE"
        " shows with PROCESS, or by an AUTO_INCREMENT that went back",
    ),
    "isolation": Promise(
        "Isolation: the level that the server gives by default, those of writers",
        snapshot="committed rows only: each reader sets REPEATABLE READ for itself."
        " On PostgreSQL a reader is in the exported snapshot, read only; on MariaDB and"
        " MySQL each statement has a read view of its own, and READ UNCOMMITTED by"
        " default shows no uncommitted row",
        sync="the same; its moment comes after those at which the clock and the open"
        " transactions were read, so all that was committed before is in it",
    ),
    "rewritten": Promise(
        "An ALTER that rewrites the table, or a TRUNCATE, while a job reads",
        unseen="to an older snapshot of PostgreSQL the table reads as empty, without an"
        " error; MariaDB and MySQL refuse an older read view (error 1412)",
        does="each reader of PostgreSQL locks such statements out (ACCESS SHARE), then"
        " looks whether its snapshot is older than one, before its first row; on all"
        " kinds the definition is compared before and after reading. What was read is"
        " dropped and read again, or the job ends (source_rewritten)",
    ),
    "column_again": Promise(
        "A column that was dropped and added again under its name, in its type",
        unseen="rows that did not change since have its former values until a resync",
        does="on PostgreSQL a sync notices it and warns until a resync, or a :verify"
        " that finds both sides equal; :verify counts them",
    ),
    "values_altered": Promise(
        "An ALTER after which values read otherwise in rows that keep their cursor: a"
        " label of an enum is renamed, a composite type gets or loses attributes, a"
        " generated column gets another expression",
        unseen="rows that did not change since have the former values until a resync",
        does="on PostgreSQL a sync notices it (enums also in arrays, domains, ranges"
        " and composite types); it warns until a resync, or a :verify that finds both"
        " sides equal; where the key or the lake's partitions have such a column it"
        " stops and asks for a resync, as changed rows would be there twice. On MariaDB"
        " and MySQL another list of an ENUM's or SET's values pauses the table, unless"
        " values were appended only; another expression can go unnoticed there. :verify"
        " counts such rows",
    ),
    "subscriber": Promise(
        "A table of PostgreSQL that a subscription fills (logical replication)",
        unseen="rows that it applies later than the safety lag after their cursor"
        " value, which is of another server's clock",
        does="each sync warns until 'lag_seconds' is set by policy, longer than the"
        " subscription can be behind",
    ),
    "no_unicode": Promise(
        "Bytes of text in MariaDB or MySQL that their character set does not have in"
        " Unicode (98 in cp1251, all above 7F in ascii)",
        snapshot="question marks",
        sync="question marks",
        unseen="in columns that are not of the key: which bytes they were; a :verify"
        " does not see it, either",
        does="takes what the server makes of them: give such a column another character"
        " set first. A load or a sync that meets such a key stops and names it"
        " (key_text_shared), as two rows could become one; so it does at a key with a"
        " character that has two codes (X'8790' and X'81E0' in cp932)",
    ),
    "row_security": Promise(
        "Row security of PostgreSQL that hides rows from the datasource's user",
        unseen="the hidden rows; a :verify does not see them, either",
        does="does not sync such a table; a job that finds it enabled later stops and"
        " writes nothing, and every connection asks for an error instead of fewer rows"
        " (row_security = off)",
    ),
    "key_forms": Promise(
        "Keys that are equal at the source and different in the lake",
        unseen="a key that is written in another form is another row in the lake, and"
        " the row under its former form stays until a resync",
        does="the plan names such columns of the key; the lake compares bytes, as it"
        " always did, so existing tables keep their keys",
    ),
    "lost_unique": Promise(
        "A key that is not unique, or not any more",
        unseen="which of several rows with one key is meant; where no index begins with"
        " the key, that a changed row takes the place of one with the same key that did"
        " not change",
        does="a load that finds a key twice is refused. A sync looks for one among what"
        " it read and, where an index begins with the key, at the source: it stops,"
        " writes nothing and keeps its position. Without such an index it stops when"
        " the source guaranteed the key before (an index was dropped, the primary key"
        " is another one); after a resync, and where the key never was guaranteed, it"
        " goes on and each sync warns. :verify counts such rows",
    ),
    "cursor_kept": Promise(
        "Writers that leave the cursor as it was",
        unseen="an update that does not set the cursor, a row whose cursor is NULL or"
        " is below every position: -infinity and years before 1 in PostgreSQL, zero"
        " dates in MariaDB and MySQL, also those with a zero month or day",
        does="NULLs and values below every position are counted and reported by each"
        " sync; of dates with a zero month or day, those of the last ten years; :verify"
        " counts all of them",
    ),
    "clock_behind": Promise(
        "Application clocks that are behind",
        unseen="a row whose cursor value was below the position when it was committed",
        does="about every five minutes a sync counts the rows that the position has"
        " passed since (within the last hour), and once more an hour later: more than"
        " before are late rows, which it warns of. Rows that come within about five"
        " minutes after the position has passed them can be in the first count already;"
        " those that come more than an hour after it are not found, nor any where more"
        " than 100,000 rows fall into five minutes; :verify finds all of them",
    ),
    "clock_ahead": Promise(
        "Cursor values ahead of the source's clock (2030-01-01, infinity)",
        unseen="such a row, until the clock gets there; infinity never does",
        does="each sync counts and tells them; :verify counts them as differences, not"
        " as changes to come",
    ),
    "clock_back": Promise(
        "A source's clock that was set back, a source restored to an earlier moment",
        unseen="rows written until the clock, or the source, is back where it was",
        does="a sync notices that clock, transaction numbers or log positions went back"
        " and warns until a resync, or a :verify that finds both sides equal",
    ),
    "failed_over": Promise(
        "A fail-over to another server",
        unseen="rows of the former primary that never reached the new one stay in the"
        " lake; rows that the new one took over late are below the position",
        does="a sync notices another server or timeline and warns until a resync, or a"
        " :verify that finds both sides equal",
    ),
    "no_zone": Promise(
        "A cursor without time zone",
        sync="rows are read when the earlier of UTC and the server's zone has passed,"
        " so no clock change hides them; they come later by the zone's offset",
        unseen="rows of sessions with a zone of their own that is west of both (ALTER"
        " ROLE … SET timezone; Java's drivers send that of their host): their local"
        " time is hours below the position when they are committed",
        does="a 'lag_seconds' by policy helps that is longer than the offset between"
        " them; :verify finds such rows",
    ),
}


def reading_of(facts: TableFacts, conditions: Conditions) -> tuple[str, ...]:
    """What the plan says of reading this table, in sentences."""
    return _reading(
        facts.source_kind,
        facts.relation,
        facts.traits,
        is_standby=bool(facts.is_standby),
        is_sync=conditions.capture == "timestamp",
    )


@lru_cache(maxsize=256)
def _reading(
    source_kind: str,
    relation: str,
    traits: frozenset[str],
    *,
    is_standby: bool,
    is_sync: bool,
) -> tuple[str, ...]:
    """Nearly all tables of a source have the same."""
    kind = kind_named(source_kind)
    cases = [
        _of_family(kind.family, shares_snapshots=kind.shares_snapshots),
        SOURCES["standby" if is_standby else "primary"],
        TABLES.get(relation, TABLES["table"]),
        *(TABLES[trait] for trait in sorted(traits)),
    ]
    found = []
    for promise in cases:
        if is_sync:
            texts = [promise.snapshot, promise.sync, promise.unseen, promise.does]
        else:  # what is not seen is what a cursor passes over
            texts = [promise.snapshot, "", "", ""]
        labels = (
            "a snapshot shows", "a sync shows", "not seen", "what Sluice does",
        )  # fmt: skip
        sentences = [
            _labelled(label, text)
            for label, text in zip(labels, texts, strict=True)
            if text
        ]
        if sentences:
            found.append(_labelled(promise.title, joined(sentences)))
    return tuple(found)


def _labelled(label: str, text: str) -> Sentence:
    return Sentence(
        "%(what)s: %(text)s", what=as_sentence(label), text=as_sentence(text)
    )


def cautions_of(facts: TableFacts, conditions: Conditions) -> tuple[str, ...]:
    """What deserves a warning before anybody approves."""
    is_sync = conditions.capture == "timestamp"
    names = ["children", "foreign", "unlogged", "versioned"]
    found = [TABLES[name] for name in names if name in facts.traits]
    if is_sync and facts.is_standby:
        found.append(SOURCES["standby"])
    if (
        is_sync
        and facts.is_standby is None
        and kind_named(facts.source_kind).hides_role
    ):
        found.append(SOURCES["unknown_role"])
    return tuple(
        Sentence(
            "%(title)s. Not seen: %(unseen)s. Sluice %(does)s",
            title=as_sentence(p.title),
            unseen=as_sentence(p.unseen),
            does=as_sentence(p.does),
        )
        for p in found
    )
