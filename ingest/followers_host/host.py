"""The host of followers: between rows of sources and the processes that read their
logs.

For each wanted source whose lease it gets, it starts one child, renews the lease, sends
which tables are wanted, hands secrets over and writes what it reports. What it holds in
memory may be lost at any moment. Two children of one source do no harm: the chain in
the lake lets one of them write. With the database away the children go on.
"""

from __future__ import annotations

import itertools
import logging
import math
import queue
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models.functions import Now

from core.errors import SluiceError
from core.leases import release_all, take_lease
from core.models import Lease
from core.processes.talking import drain, end_all
from core.sentences import Sentence
from ingest.contract.following import FollowTable, Replaced
from ingest.contract.job import CLOCK, LAKE_SECRET, ErrorFact
from ingest.contract.members import value_of
from ingest.followers_host import rows
from ingest.followers_host.children import (
    STOP_SECONDS,
    FollowerChild,
    FollowerCommand,
    News,
    start_follower,
)
from ingest.followers_host.followed import FollowedSource, state_of
from ingest.hosting import DatabaseSteps, SecretBroker, pause_behind
from ingest.jobs import leases
from ingest.jobs.kinds import source_spec
from ingest.models import SourceFollower
from ingest.pipelines import followers, replaced
from ingest.pipelines.followers import note_begun
from ingest.pipelines.log_tables import FollowedTables, follow_spec

log = logging.getLogger(__name__)

# Who asks for something wakes the host. Leases are kept by looks, too.
LOOK_SECONDS, LOOKS_IN_LEASE = 2.0, 6
FLUSH_SECONDS = 1.0
# Until it imported what it needs, on a machine that is busy; and for one that gives
# back what was made at the source, which reports nothing meanwhile.
START_SECONDS = 120.0
# Sources that one look takes over: hosts that start together share them.
MOST_TAKEN = 4


# What a follower says of a table beside its state.
_Sign = tuple[str, tuple[str, ...], Mapping[str, str | None], Replaced | None]
_NO_SIGN: _Sign = "", (), {}, None


@dataclass(frozen=True, slots=True)
class Wanted:
    """is_over: nothing of it is followed any more, what was made there has to go."""

    row: SourceFollower
    is_over: bool = False

    @property
    def asked(self) -> tuple[datetime, int]:
        """Another one once somebody asks for it anew, or saves another password."""
        return self.row.desired_at, self.row.datasource.version


def wanted_sources() -> dict[int, Wanted]:
    """By id of the datasource, which comes with its row."""
    running = SourceFollower.RUNNING
    wanted = [r for r in followers.followers_of_sources() if r.desired == running]
    over = {
        r.datasource_id: Wanted(r, is_over=True)
        for r in followers.abandoned_followers()
    }
    return over | {row.datasource_id: Wanted(row) for row in wanted}


class FollowersHost:
    """`step()` does a bit of everything; the command calls it until it has to end."""

    def __init__(
        self,
        command: FollowerCommand,
        *,
        place: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """place: machine and home, for people."""
        self.command = command
        self.place = place
        self.owner = f"followers:{uuid.uuid4()}"
        self.clock = clock
        self.sources: dict[int, FollowedSource] = {}
        self.database = DatabaseSteps("the host of followers", "followers go on")
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._looked = self._flushed = self._renewed = -math.inf
        self._look_pause = LOOK_SECONDS
        self._starts = itertools.count(1)
        self._broker = SecretBroker()
        self._signs: dict[int, _Sign] = {}
        self._said: dict[int, str] = {}
        self._followed = FollowedTables()

    def wake(self) -> None:
        """Look at the rows at once; from any thread."""
        self._news.put(News("woken"))

    def step(self, seconds: float = 0.5) -> None:
        """Receive for at most `seconds`, then look and write as is due."""
        for news in drain(self._news, seconds):
            self._receive(news)
        now = self.clock()
        self._end_silent(now)
        if now - self._looked >= self._look_pause:
            self._looked = now
            self.database.run(self._look)
            self._look_pause = pause_behind(
                self.clock() - now,
                least=LOOK_SECONDS,
                most=settings.SLUICE_LEASE_SECONDS / LOOKS_IN_LEASE,
            )
        if self._broker.waits:
            self.database.run(self._broker.begin)
        for answer, origin in self._broker.answered():
            if child := self._child(origin):
                child.give_secret(answer)
        if now - self._flushed >= FLUSH_SECONDS:
            self._flushed = now
            self.database.run(self._flush)

    def stop(self) -> None:
        """End all children, then give the leases back: another host takes them over."""
        children = [s.child.process for s in self.sources.values() if s.child]
        end_all(children, seconds=STOP_SECONDS)
        for source in self.sources.values():
            source.child = None
            source.show("stopped", "its host has ended")
        self.database.run(self._flush)
        self.database.run(lambda: release_all(self.owner))
        self.sources.clear()

    # ---------------------------------------------------------------- messages

    def _receive(self, news: News) -> None:
        if news.kind == "woken":
            self._looked = -math.inf
            return
        source = self.sources.get(news.source)
        if source is None or source.starts != news.start:
            return
        now = self.clock()
        source.heard = now
        try:
            match news.kind:
                case "ready":
                    source.is_ready = True
                case "state":
                    source.note_state(state_of(news.data, source.state), now)
                case "failed":
                    fact = value_of(ErrorFact, news.data["error"])
                    source.note_failed(news.data["outcome"], fact)
                    log.warning("follower of %s: %s", news.source, fact.message)
                case "secret_request":
                    self._note_request(source, str(news.data["ref"]))
                case "ended":
                    source.note_ended(news.data["code"], now)
                    self._broker.forget(_origin(source))
                    self._looked = -math.inf
        except (KeyError, TypeError, ValueError, SluiceError):
            log.exception("follower of %s sent a malformed %s", news.source, news.kind)

    def _note_request(self, source: FollowedSource, ref: str) -> None:
        child = source.child
        if child and ref in {child.spec.source.secret_ref, LAKE_SECRET, CLOCK}:
            self._broker.note(ref, _origin(source))
        else:
            log.error("follower of %s wants %r", source.datasource_id, ref)

    def _child(self, origin: str) -> FollowerChild | None:
        """The one that asked, while it lives."""
        for source in self.sources.values():
            if source.child and _origin(source) == origin:
                return source.child
        return None

    def _end_silent(self, now: float) -> None:
        """A child that hangs is as good as dead, and its place must get free."""
        for source in self.sources.values():
            if source.child and source.is_told_to_end and now > source.ends_by:
                source.child.process.kill()
            limit = settings.SLUICE_LEASE_SECONDS
            if source.child and (not source.is_ready or source.child.spec.is_over):
                limit = START_SECONDS
            if source.child and now - source.heard > limit:
                source.heard = now
                why = Sentence(
                    "the follower sent nothing for %(limit)s s and was killed",
                    limit=f"{limit:.0f}",
                )
                source.show("failed", why, "follower_silent")
                source.child.process.kill()

    # -------------------------------------------------------------------- rows

    def _look(self) -> None:
        found = wanted_sources()
        self._keep_leases()
        for pk in [pk for pk, source in self.sources.items() if source.is_released]:
            self._give_up(self.sources[pk])
            SourceFollower.objects.filter(datasource=pk).delete()
            found.pop(pk, None)
        for pk in self.sources.keys() - found.keys():
            self._give_up(self.sources[pk])
        for pk in self._free(found)[:MOST_TAKEN]:
            name, seconds = _lease(pk), settings.SLUICE_LEASE_SECONDS
            if take_lease(name, owner=self.owner, seconds=seconds):
                self.sources[pk] = FollowedSource(pk, found[pk].asked)
        tables = self._followed.read(self.sources)
        for pk, source in self.sources.items():
            self._bring_on(source, found[pk], tables[pk])

    def _keep_leases(self) -> None:
        """Renew them; a source that another host took over is its own now."""
        now = self.clock()
        if now - self._renewed < settings.SLUICE_LEASE_SECONDS / LOOKS_IN_LEASE:
            return
        leases.renew([self.owner])
        self._renewed = now
        names = Lease.objects.filter(owner=self.owner).values_list("name", flat=True)
        held = set(names)
        for pk in [pk for pk in self.sources if _lease(pk) not in held]:
            log.warning("another host took source %s over", pk)
            if child := self.sources.pop(pk).child:
                child.process.kill()

    def _free(self, found: dict[int, Wanted]) -> list[int]:
        """Wanted sources that no host follows."""
        names = {_lease(pk): pk for pk in found if pk not in self.sources}
        rows = Lease.objects.filter(name__in=names).exclude(owner="")
        taken = set(rows.filter(expires_at__gt=Now()).values_list("name", flat=True))
        return [pk for name, pk in sorted(names.items()) if name not in taken]

    def _give_up(self, source: FollowedSource) -> None:
        """Nobody wants it any more. Its lease goes when its child is gone."""
        if source.child is not None:
            self._end(source)
            return
        source.show("stopped")
        rows.write_all([source], owner=self.owner, host=self.place)
        pk = source.datasource_id
        mine = Lease.objects.filter(name=_lease(pk), owner=self.owner)
        mine.update(owner="", expires_at=None)
        del self.sources[pk]

    def _end(self, source: FollowedSource) -> None:
        """Its child ends at once, or is killed when it does not."""
        if source.child is not None and not source.is_told_to_end:
            source.is_told_to_end = True
            source.ends_by = self.clock() + STOP_SECONDS
            source.child.process.ask_to_end()

    def _bring_on(
        self, source: FollowedSource, want: Wanted, tables: tuple[FollowTable, ...]
    ) -> None:
        try:
            self._keep_child(source, want, tables)
        except (SluiceError, OSError, ValueError) as error:
            # of this source alone: others must go on
            log.exception("source %s is not followed now", source.datasource_id)
            source.show("failed", str(error), getattr(error, "code", "not_started"))
            source.note_not_started(self.clock())

    def _keep_child(
        self, source: FollowedSource, want: Wanted, tables: tuple[FollowTable, ...]
    ) -> None:
        now, child = self.clock(), source.child
        row = want.row
        if source.asked != want.asked:
            source.asked, source.next_start = want.asked, now
            source.failures = 0
        if child is None:
            if now >= source.next_start:
                writer = f"{self.place} {self.owner}"
                spec = follow_spec(
                    row.datasource,
                    writer=writer,
                    begin_anew=row.begin_anew,
                    is_over=want.is_over,
                )
                number = next(self._starts)
                child = start_follower(
                    self.command, spec, start=number, news=self._news
                )
                source.note_started(child, now)
            return
        is_other = child.spec.source != source_spec(row.datasource)
        if is_other or child.spec.is_over != want.is_over:
            self._end(source)
        elif tables != child.tables:
            child.send_tables(tables)

    def _flush(self) -> None:
        """What was reported since the last time."""
        held = list(self.sources.values())
        rows.write_all(held, owner=self.owner, host=self.place)
        tables = [one for source in held for one in source.tables]
        rows.stop_tables(tables)
        rows.note_gone(tables)
        self._said = rows.explain_loads(tables, self._said)
        if begun := [s.datasource_id for s in held if s.has_begun_anew]:
            note_begun(begun)
        # what stops a table may be a column that is gone
        signs = {
            t.table_id: (t.problem, t.new_columns, t.older, t.replaced) for t in tables
        }
        new = [n for n, sign in signs.items() if sign != self._signs.get(n, _NO_SIGN)]
        said = {n for n in new if signs[n] != _NO_SIGN}
        looked = rows.look_at_columns(t for t in tables if t.table_id in said)
        replaced.note({n: signs[n][3] for n in new})
        # a table that is being loaded is looked at once it has its rows: its load may
        # have begun before the column came
        self._signs |= {n: signs[n] for n in new if n in looked or signs[n] == _NO_SIGN}


def _lease(datasource_id: int) -> str:
    return f"follower:{datasource_id}"


def _origin(source: FollowedSource) -> str:
    """Of one start: what another one asked for is not given to it."""
    return f"{source.datasource_id}:{source.starts}"
