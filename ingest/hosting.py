"""What hosts share that start processes by rows: waking, secrets, the database's steps.

Whoever changes rows that a host reads notifies a channel of PostgreSQL as of its
commit. A message that is lost costs nothing but the host's next look.

A process gets the key of the lake's object store, and a source's password with the only
addresses it may go to. The name is looked up at each hand-over and every address is
held against the denied networks; the process connects to these addresses and does not
ask the name servers. So a name that points elsewhere since the registration, or turns
while a job starts, leads nowhere. What remains: a job that runs goes on when the
setting changes. Looking up may take seconds, which the host's step must not: it happens
on threads.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import queue
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import django.db
import psycopg
from django.conf import settings
from django.db import connection
from psycopg import sql

from catalog.models import Datasource
from catalog.sources.access import SourceAccess, access_for, resolved
from catalog.sources.tls import ca_file
from core.database_errors import is_away
from core.errors import NotFound, SluiceError, TerminalError
from ingest.contract.job import CLOCK, LAKE_SECRET, SecretAnswer, fact_of, outcome_of
from ingest.jobs.kinds import SECRET_PREFIX

# Until a listener looks whether it is to stop; what comes wakes it at once.
CHECK_SECONDS = 1.0
AGAIN_SECONDS = 2.0


# Of a host's time, what may go into looks for which nobody woke it.
_LOOK_SHARE = 0.0025


def pause_behind(took: float, *, least: float, most: float) -> float:
    """Seconds from the beginning of a look to the next one that nobody asks for. Who
    changes rows wakes the host, so where a look is dear, for it is at hundreds of
    tables, it may come later. took: seconds of the last one."""
    return min(max(least, took / _LOOK_SHARE), most)


class Host(Protocol):
    def wake(self) -> None: ...

    def step(self) -> None: ...

    def stop(self) -> None: ...


def serve(host: Host, *, channel: str, stop: threading.Event) -> None:
    """Steps of the host, woken by the channel, until `stop` is set; then its end."""
    woken = (channel, host.wake, stop)
    threading.Thread(target=listen, args=woken, daemon=True).start()
    try:
        while not stop.is_set():
            host.step()
    finally:
        host.stop()


def listen(channel: str, wake: Callable[[], None], stop: threading.Event) -> None:
    """Call `wake` for each message until `stop` is set, on a connection of its own."""
    parameters = connection.get_connection_params()
    while not stop.is_set():
        try:
            _listen(parameters, channel, wake, stop)
        except psycopg.Error as error:
            log.debug("not notified on %s now: %s", channel, error)
            stop.wait(AGAIN_SECONDS)


def _listen(
    parameters: dict[str, object],
    channel: str,
    wake: Callable[[], None],
    stop: threading.Event,
) -> None:
    with psycopg.connect(**parameters, autocommit=True) as link:  # type: ignore[arg-type]
        link.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        wake()  # what came before
        waiting = select.poll()
        waiting.register(link.fileno(), select.POLLIN)
        while not stop.is_set():
            # psycopg's own waiting wakes ten times a second; several that came together
            # are one
            if not waiting.poll(CHECK_SECONDS * 1_000):
                continue
            if list(link.notifies(timeout=0)):
                wake()


@dataclass(slots=True)
class DatabaseSteps:
    """who: the host, and what goes on without the database, for its log."""

    who: str
    goes_on: str
    is_away: bool = False

    def run(self, work: Callable[[], object]) -> None:
        """Never raises: the next step tries again, and what the host looks after must
        not end with a defect of ours, or because another process was first."""
        try:
            work()
            self.is_away = False
        except Exception as error:
            if is_away(error):
                if not self.is_away:
                    log.warning("the database is away, %s: %s", self.goes_on, error)
                self.is_away = True
                connection.close()
                return
            log.exception("a step of %s failed", self.who)
            if isinstance(error, django.db.Error):
                connection.close()


log = logging.getLogger(__name__)

# Well below what a driver waits for its secret.
LONGEST_LOOK_UP = 10
# Most names answer within this, and their jobs then lose no step.
QUICK_SECONDS = 0.05


class SecretBroker:
    """Asked and read by the host's thread; answers come in any order."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._noted: list[tuple[str, str]] = []
        self._asked: dict[int, str] = {}
        self._done: queue.SimpleQueue[tuple[int, SecretAnswer]] = queue.SimpleQueue()

    @property
    def waits(self) -> bool:
        return bool(self._noted)

    def note(self, ref: str, origin: str) -> None:
        """To be asked by the next `begin`."""
        self._noted.append((ref, origin))

    def begin(self) -> None:
        """Ask what was noted; it stays noted when the database is away."""
        while self._noted:
            self.ask(*self._noted[0])
            self._noted.pop(0)

    def ask(self, ref: str, origin: str) -> None:
        """Begin to answer. Errors of the database go up, and nothing has begun."""
        try:
            known = _known_answer(ref)
        except SluiceError as error:
            known = _refused(ref, error)
        number = next(self._numbers)
        self._asked[number] = origin
        if isinstance(known, SecretAnswer):
            self._done.put((number, known))
            return
        thread = threading.Thread(
            target=self._look_up, args=(number, ref, known), daemon=True
        )
        thread.start()
        thread.join(QUICK_SECONDS)

    def answered(self) -> list[tuple[SecretAnswer, str]]:
        """(answer, origin) of what is ready."""
        found = []
        while not self._done.empty():
            number, answer = self._done.get()
            origin = self._asked.pop(number, None)
            if origin is not None:
                found.append((answer, origin))
        return found

    def forget(self, origin: str) -> None:
        """Its asker is gone: nobody gets these answers, whoever comes next did not ask
        for them."""
        self._noted = [asked for asked in self._noted if asked[1] != origin]
        self._asked = {n: who for n, who in self._asked.items() if who != origin}

    def _look_up(self, number: int, ref: str, access: SourceAccess) -> None:
        try:
            addresses = resolved(access)
        except SluiceError as error:
            answer = _refused(ref, error)
        else:
            answer = SecretAnswer(
                ref, access.password, access.host, addresses, ca_file() or ""
            )
        self._done.put((number, answer))


def _known_answer(ref: str) -> SecretAnswer | SourceAccess:
    """Of a source its access, of which the name has to be looked up yet."""
    if ref == LAKE_SECRET:
        return _lake_store()
    if ref == CLOCK:
        return SecretAnswer(CLOCK, _database_time())
    pk = ref.removeprefix(SECRET_PREFIX)
    found = Datasource.objects.filter(pk=int(pk)).first() if pk.isdecimal() else None
    if found is None:
        raise NotFound("there is no %(ref)s", ref=ref, code="datasource_removed")
    access = access_for(found)
    seconds = min(access.connect_timeout, LONGEST_LOOK_UP)
    return dataclasses.replace(access, connect_timeout=seconds)


def _database_time() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        ((now,),) = cursor.fetchall()
    return str(now.isoformat())


def _lake_store() -> SecretAnswer:
    access = settings.SLUICE_OBJECT_STORE
    if access is None:
        raise TerminalError(
            "the lake is on an object store, and there is no key for it",
            code="unsupported_lake",
            hint="set SLUICE_S3_ACCESS_KEY and SLUICE_S3_SECRET_KEY",
        )
    return SecretAnswer(LAKE_SECRET, json.dumps(dataclasses.asdict(access)))


def _refused(ref: str, error: SluiceError) -> SecretAnswer:
    log.warning("a driver does not get %s: %s", ref, error)
    # name servers lose a name while it moves: that is no reason to stop its tables
    is_passing = error.code == "unknown_host"
    outcome = "transient" if is_passing else outcome_of(error)
    return SecretAnswer(ref, outcome=outcome, error=fact_of(error))
