"""What the host of followers and the follower of one source's log say to each other.

One JSON object per line.
  host → follower   hello{silence_seconds, spec: FollowSpec}, secret{SecretAnswer},
                    tables{tables: [FollowTable]} (all that are wanted, again whenever
                    one changes), ping{at}, stop
  follower → host   ready{pid}, secret_request{ref}, state{FollowerState},
                    failed{outcome, error: ErrorFact} before it ends
A state without `tables` has those of the one before.
hello, tables and state have `sentences`, too: what their texts were made of.
A follower that hears nothing for `silence_seconds` ends. So it does when it `failed`,
whatever the reason, and its host starts another. What it does is decided by the chain
(`ingest.lake.chain`), never by what it was told last. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ingest.contract.segments import ControlKind
from ingest.contract.table import SourceSpec, TableSpec

# starting: connects, makes what is missing at the source, takes the stream over.
# waiting: for something at the source, which `reason` names. following: it reads.
Observed = Literal["starting", "waiting", "following"]
_NAME_AT_SOURCE = re.compile(r"sluice_\d+_[0-9a-f]{8}")


def name_at_source(datasource_id: int, lake_id: str) -> str:
    """Of the slot and of the publication of a stream: no two lakes have the same."""
    return f"sluice_{datasource_id}_{lake_id}"


def is_name_at_source(name: str) -> bool:
    """Of any stream, of whatever lake."""
    return _NAME_AT_SOURCE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class FollowTable:
    """A table whose changes are wanted, and where its load stands.

    load         name of its newest load, "" = none has begun. A name that the stream
                 does not know yet gets a `cut`
    finished_at  position `at` of that load, once it is in the lake; gets `finished`
    deferred     why nothing waits for it, "" = it is followed; gets `deferred`
    is_awaited   somebody waits until it has what its source's log has now, so the
                 stream moves on soon, also without rows
    is_unread    its plan cannot be read: `table` has only its names, nothing of it is
                 taken, and who sent the list is told so by the problem `deferred`
    keep_seconds, keep_bytes  how long changes of it stay for their readers, and how
                 many bytes of the stream at most
    A table that is no longer in the list gets `removed`
    """

    table: TableSpec
    load: str = ""
    finished_at: str = ""
    deferred: str = ""
    is_awaited: bool = False
    is_unread: bool = False
    keep_seconds: float = 0.0
    keep_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FollowSpec:
    """One source's log, read into one stream.

    slot, publication  their names at the source; made by the follower when its login
                       may, before the stream begins
    above   a new stream's first segment is above this number: above every epoch of a
            table that it will be about
    writer  which process it is, for people
    begin_anew  a person decided that, where the log behind the stream's end is lost or
                is another server's, it goes on with what there is: every table is
                deferred, and needs a new load. Where nothing is lost it has no effect
    is_over  nothing of the source is followed any more: the stream says so, slot and
             publication are dropped, and the follower ends with code 0
    """

    source: SourceSpec
    stream: str
    lake: str
    slot: str
    publication: str
    above: int
    writer: str
    tables: tuple[FollowTable, ...] = ()
    begin_anew: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Replaced:
    """A table that took the place of one that is followed, and has its rows as far as
    is known. by: the tool that filled it. at: where in the log that was, encoded.
    when: microseconds since 1970."""

    by: str
    at: str
    when: int


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """What the stream says of a table, and what the follower met.

    state    "" = nothing yet: it is not followed, and `problem` says why
    problem  why its rows are not taken (of a table that was followed `deferred` was
             recorded, and it needs a new load), "" = none
    new_columns  that the source has, and its plan lacks or has in a narrower type, and
             of which nobody decided yet
    older     of these, what they gave to rows that were there as they were added, as
              far as the source's log tells more of that than a look at the source
    replaced  the newest table that took its place since its load began; to be compared
    gone      of a sharded one the source tables that are not there any more, and of
              which all is in the stream
    """

    table_id: int
    state: ControlKind | Literal[""]
    problem: str = ""
    new_columns: tuple[str, ...] = ()
    older: Mapping[str, str | None] = field(default_factory=dict)
    replaced: Replaced | None = None
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceLog:
    """kept: bytes of its log that the source keeps for us. safe: bytes that may come
    before it stops keeping them, None = without a limit. behind: bytes of its log that
    are not durable here yet."""

    kept: int = 0
    safe: int | None = None
    behind: int = 0
    status: str = ""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """About once a second, and whenever `observed` changes.

    position   end of the last durable segment, encoded; "" = none
    number     of that segment; first: the first that is kept
    committed  when the newest transaction that is durable was committed at the source,
               microseconds since 1970; 0 = none since the start
    rows       made durable since the start
    waiting_bytes  of all kept segments; None until they were counted
    unread     which lake table cannot be read, and why, so that segments are kept for
               it; "" = all can
    """

    observed: Observed
    reason: str = ""
    position: str = ""
    number: int = 0
    first: int = 0
    committed: int = 0
    rows: int = 0
    waiting_bytes: int | None = None
    unread: str = ""
    log: SourceLog = SourceLog()
    tables: tuple[FollowedTable, ...] = ()
