"""Well-behaved clients: they log in, ask, know the answer, and note how long it took."""

from __future__ import annotations

import statistics
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.siege.target import Target

# What is asked, and what must come.
QUESTIONS: tuple[tuple[str, list[tuple[Any, ...]]], ...] = (
    ("SELECT sum(id) FROM range(1000)", [(499_500,)]),
    (
        "SELECT id FROM demo.products WHERE id BETWEEN 3 AND 5 ORDER BY id",
        [(3,), (4,), (5,)],
    ),
    ("SELECT count(*) FROM (SELECT id FROM demo.products WHERE id <= 20)", [(20,)]),
)
STATEMENTS_PER_LOGIN = 10
# longer than the longest that any of these may take once the time is over
PATIENCE_SECONDS = 300.0


@dataclass
class Noted:
    """seconds: of each statement that was answered right; errors: of all others."""

    seconds: list[float] = field(default_factory=list)
    logins: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def p95(self) -> float:
        return statistics.quantiles(self.seconds, n=20)[-1]

    def p50(self) -> float:
        return statistics.median(self.seconds)


def ask_for(target: Target, friends: int, seconds: float) -> Noted:
    """What this many clients saw in this time, one connection each. One that gets no
    answer at all is an error, and is left behind."""
    noted = [Noted() for _ in range(friends)]
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_ask, args=(target, one, until), daemon=True)
        for one in noted
    ]
    for thread in threads:
        thread.start()
    for thread, one in zip(threads, noted, strict=True):
        thread.join(max(0.0, until + PATIENCE_SECONDS - time.monotonic()))
        if thread.is_alive():
            one.errors.append(f"no answer within {PATIENCE_SECONDS:.0f} s")
    return Noted(
        *(
            [each for one in noted for each in getattr(one, name)]
            for name in ("seconds", "logins", "errors")
        )
    )


def _ask(target: Target, noted: Noted, until: float) -> None:
    while time.monotonic() < until:
        try:
            began = time.monotonic()
            with closing(target.connect(target.friend)) as connection:
                noted.logins.append(time.monotonic() - began)
                _converse(connection, noted, until)
        except Exception:  # noqa: BLE001  whatever it is, a friend suffered it
            noted.errors.append(traceback.format_exc(limit=2)[-400:])
            time.sleep(0.2)


def _converse(connection: Any, noted: Noted, until: float) -> None:
    for turn in range(STATEMENTS_PER_LOGIN):
        if time.monotonic() > until:
            return
        sql, answer = QUESTIONS[turn % len(QUESTIONS)]
        began = time.monotonic()
        with closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            found: Sequence[tuple[Any, ...]] = cursor.fetchall()
        assert found == answer, (sql, found)
        noted.seconds.append(time.monotonic() - began)
