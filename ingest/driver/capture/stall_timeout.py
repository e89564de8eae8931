"""A job of which nothing comes while it reads: what does its source do?

Asked on a connection made for the question, because no byte on the others says whether
a server sorts for an hour or is gone. One that answers is let be, and the job says what
it waits for; one that does not answer for `LIMITS.unanswered` seconds ends the reading.
So does a connection for which the server has long nothing to do, whatever others get.
It must not know what is read.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from catalog.schema.limits import LIMITS
from core.errors import TransientError
from core.sentences import Sentence
from ingest.driver.apply.jobrun import JobRun
from ingest.sources.registry import SOURCE_ERRORS

LOOK_SECONDS = 10.0


class SourceWatch:
    """Of one job at its source.

    ask      what the source does for the job, in words; TimeoutError = no answer
    waiting  its connections that have waited for a byte for `LIMITS.quiet` seconds: a
             name of that wait → the connection's session at the source
    idle     those of some sessions for which the source has nothing to do, or only
             wait until their rows are fetched; TimeoutError = no answer
    hang_up  ends all that the job waits for there
    """

    def __init__(
        self,
        run: JobRun,
        *,
        ask: Callable[[], str],
        waiting: Callable[[], Mapping[str, int]],
        idle: Callable[[Collection[int]], Collection[int]],
        hang_up: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._ask = ask
        self._waiting = waiting
        self._idle = idle
        self._hang_up = hang_up
        self._clock = clock
        self._since: datetime | None = None
        self._unanswered: float | None = None
        self._said = ""
        # waits with an idle session → since when
        self._stuck: dict[str, float] = {}
        self._over = threading.Event()
        self._ending = threading.Lock()
        self.silence: TransientError | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Whatever fails inside once the source was found silent fails for that."""
        threading.Thread(target=self._look_until_over, daemon=True).start()
        try:
            yield
        except Exception as error:
            if self.silence is None or self._run.stop_mode is not None:
                raise
            raise self.silence from error
        finally:
            with self._ending:
                self._over.set()

    def look(self) -> None:
        """Ends the reading, says what it waits for, or sees that it goes on."""
        still = self._run.still_seconds
        if still < LIMITS.quiet:
            self._forget()
            return
        if self._run.progress.reason not in {"", self._said}:
            # it waits for something else, and says so
            self._forget(is_told=False)
            return
        if self._since is None:
            self._since = datetime.now(UTC) - timedelta(seconds=still)
        try:
            doing = self._ask()
        except TimeoutError:
            self._note_silence()
            return
        except SOURCE_ERRORS as error:
            doing = Sentence(
                "asked why, it says: %(text)s",
                text=str(error).strip().splitlines()[0][:200],
            )
        self._unanswered = None
        self._say(
            Sentence(
                "the source has sent nothing since %(at)s: %(doing)s",
                at=self._at,
                doing=doing,
            )
        )

    def look_at_readers(self) -> None:
        """Ends the reading when one waits for a byte that got lost: its session has
        nothing to do, at this look and at those before."""
        before, self._stuck = self._stuck, {}
        waiting = self._waiting()
        if not waiting:
            return
        try:
            idle = self._idle(waiting.values())
        except SOURCE_ERRORS:
            # silent as a whole, or without an answer to this: nothing is known
            return
        now = self._clock()
        stuck = [wait for wait, session in waiting.items() if session in idle]
        self._stuck = {wait: before.get(wait, now) for wait in stuck}
        longest = max((now - before[w] for w in stuck if w in before), default=-1)
        if longest >= LIMITS.unanswered:
            self._end(_frozen(len(stuck)))

    @property
    def _at(self) -> str:
        return f"{self._since:%H:%M:%S} UTC"

    def _note_silence(self) -> None:
        now = self._clock()
        self._unanswered = now if self._unanswered is None else self._unanswered
        self._say(
            Sentence(
                "the source has sent nothing since %(at)s, and new connections get"
                " no answer",
                at=self._at,
            )
        )
        if now - self._unanswered < LIMITS.unanswered:
            return
        self._end(self._silent())

    def _end(self, silence: TransientError) -> None:
        with self._ending:
            # an answer may take long: until then the job commits what it has read
            if not self._over.is_set():
                self.silence = silence
                self._hang_up()

    def _silent(self) -> TransientError:
        return TransientError(
            "the source has sent nothing since %(at)s, and answered no new"
            " connection for %(unanswered)s s; nothing of this job is visible",
            at=self._at,
            unanswered=LIMITS.unanswered,
            code="source_silent",
            hint="it is tried again automatically; look at the server and at what lies"
            " between it and Sluice",
        )

    def _say(self, reason: str) -> None:
        if reason != self._said:
            self._run.say("warning", reason)
        self._said = reason
        self._run.explain(reason)

    def _forget(self, *, is_told: bool = True) -> None:
        if is_told and self._said and self._run.progress.reason == self._said:
            self._run.explain("")
        self._since = self._unanswered = None
        self._said = ""

    def _look_until_over(self) -> None:
        while not self._over.wait(LOOK_SECONDS) and self.silence is None:
            self.look()
            if self.silence is None:
                self.look_at_readers()


def _frozen(readers: int) -> TransientError:
    return TransientError(
        "%(readers)s of the job's connections to the source had no byte"
        " for %(quiet)s s, while its server answers others and has nothing"
        " to do for them; nothing of this job is visible",
        readers=readers,
        quiet=LIMITS.quiet + LIMITS.unanswered,
        code="source_silent",
        hint="it is tried again automatically; look at what lies between the server and"
        " Sluice",
    )
