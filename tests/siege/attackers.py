"""Clients that mean harm, or do not care: each act is one call of a function here.

An act may be refused in any way; what counts is what the others feel.
"""

from __future__ import annotations

import itertools
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from gateway.hs2 import framing
from tests.siege.target import PASSWORD, Target

Act = Callable[["Attacker"], None]
HELD = 30
# for what is under way when the siege ends
PATIENCE_SECONDS = 120.0
_WORST = (
    "USE a" + " " * 60_000 + "!",
    "SELECT raise_error(repeat('a.', 30000))",
    "SELECT 1 " + "/*" * 5_000 + "*/" * 5_000,
    "SELECT 1 " + "/*" * 100_000,
    "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "SELECT " + "NOT " * 20_000 + "true",
    "SELECT 1" + " UNION ALL SELECT 1" * 3_000,
    f"SELECT `{'a' * 900_000}`",
    f"SET sluice.x={'y' * 900_000}",
    "SELECT 1 /* \x00 */",
)


@dataclass
class Attacker:
    """One thread. `held` are sockets that it leaves open."""

    target: Target
    name: str
    chance: random.Random
    held: deque[socket.socket] = field(default_factory=deque)
    worst: Any = field(default_factory=lambda: itertools.cycle(_WORST))

    def user(self) -> str:
        return self.chance.choice(list(self.target.strangers))

    def hold(self, raw: socket.socket) -> None:
        self.held.append(raw)
        while len(self.held) > HELD:
            self.held.popleft().close()


def wrong_login(one: Attacker) -> None:
    one.target.connect(f"nobody{one.chance.random()}", "wrong").close()


def half_open(one: Attacker) -> None:
    raw = _knock(one.target)
    raw.sendall(framing.client_opening("x", "y")[: one.chance.randrange(1, 9)])
    one.hold(raw)
    time.sleep(0.05)


def slow_sender(one: Attacker) -> None:
    """Announces four megabytes, and sends them byte by byte."""
    if len(one.held) < HELD:
        raw = _knock(one.target)
        raw.sendall(framing.client_opening(one.user(), PASSWORD))
        raw.recv(5)
        raw.sendall(struct.pack("!I", 4 << 20) + b"\x80" * 60_000)
        one.hold(raw)
    for raw in one.held:
        with suppress(OSError):
            raw.send(b"\x80")
    time.sleep(0.1)


def worst_input(one: Attacker) -> None:
    with _cursor(one) as cursor:
        cursor.execute(next(one.worst))


def wide_fetch(one: Attacker) -> None:
    with _cursor(one) as cursor:
        cursor.execute("SELECT repeat('x', 1000000) FROM range(0, 60)")
        cursor.fetchall()


def cross_join(one: Attacker) -> None:
    """Asks for more than anybody waits for, and cancels it."""
    with _cursor(one) as cursor:
        cursor.execute(
            "SELECT count(*) FROM range(200000) a CROSS JOIN range(200000) b",
            async_=True,
        )
        time.sleep(1)
        cursor.cancel()


def endless_match(one: Attacker) -> None:
    """A regular expression that tries all ways, cancelled in the midst of it."""
    with _cursor(one) as cursor:
        cursor.execute(
            "SELECT count_if(repeat('a', 60) || id RLIKE '(.*a){25}$') FROM range(64)",
            async_=True,
        )
        time.sleep(1)
        cursor.cancel()


def abandoned(one: Attacker) -> None:
    """Hangs up in the middle of its statement."""
    connection = one.target.connect(one.user())
    cursor = connection.cursor()
    cursor.execute("SELECT count(*) FROM range(100000) a, range(1000) b", async_=True)
    connection._transport.close()


def memory_hog(one: Attacker) -> None:
    with _cursor(one) as cursor:
        cursor.execute(
            "SELECT size(collect_list(repeat(id, 100))) FROM range(0, 20000000)"
        )
        cursor.fetchall()
    time.sleep(2)


# Each with the number of its threads.
ACTS: dict[Act, int] = {
    wrong_login: 8,
    half_open: 1,
    slow_sender: 1,
    worst_input: 1,
    wide_fetch: 1,
    cross_join: 1,
    endless_match: 1,
    abandoned: 1,
    memory_hog: 1,
}


class Siege:
    """All attackers at once, from `with` to its end.

    acts    how often each came
    stuck   those whose last act had no end long after the siege's
    """

    def __init__(
        self, target: Target, *, seed: int = 1, without: Collection[str] = ()
    ) -> None:
        self.acts: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.stuck: list[str] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._besiege,
                name=act.__name__,
                daemon=True,
                args=(
                    act,
                    Attacker(target, act.__name__, random.Random(seed * 100 + n)),
                ),
            )
            for act, many in ACTS.items()
            if act.__name__ not in without
            for n in range(many)
        ]

    def __enter__(self) -> Siege:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        until = time.monotonic() + PATIENCE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.stuck.append(thread.name)

    def _besiege(self, act: Act, one: Attacker) -> None:
        while not self._over.is_set():
            try:
                act(one)
                answer = "done"
            except Exception as error:  # noqa: BLE001  a refusal is an answer
                answer = type(error).__name__
            self.acts[one.name] += 1
            self.answers[f"{one.name}: {answer}"] += 1
        for raw in one.held:
            raw.close()


@contextmanager
def _cursor(one: Attacker) -> Iterator[Any]:
    connection = one.target.connect(one.user())
    with closing(connection), closing(connection.cursor()) as cursor:
        yield cursor


def _knock(target: Target) -> socket.socket:
    return socket.create_connection((target.host, target.port), timeout=30)
