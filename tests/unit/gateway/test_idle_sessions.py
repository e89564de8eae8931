"""Which engine sessions wait for a user's next statement over REST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from gateway.engines.port import EngineSession
from gateway.idle_sessions import IdleSession, IdleSessions


@dataclass(eq=False)
class Opened:
    is_closed: bool


def left(user: str, *, is_closed: bool = False) -> IdleSession:
    session: Any = Opened(is_closed)
    return IdleSession(user, cast(EngineSession, session), "default")


def test_the_newest_of_the_user_is_taken_once() -> None:
    idle = IdleSessions(most=9, most_each=9)
    kept = [left("ann"), left("bob"), left("ann"), left("ann", is_closed=True)]
    assert [idle.keep(one) for one in kept] == [[]] * 4
    assert idle.take("eve") is None
    taken = [idle.take("ann") for _ in range(3)]
    assert taken == [kept[2], kept[0], None]
    assert idle.users() == {"bob"}


def test_the_oldest_goes_for_a_new_one() -> None:
    idle = IdleSessions(most=3, most_each=2)
    kept = [left(user) for user in ("bob", "ann", "ann", "ann", "eve")]
    gone = [idle.keep(one) for one in kept]
    assert gone == [[], [], [], [kept[1].session], [kept[0].session]]
    assert idle.remove_oldest() == [kept[2].session]
    assert idle.remove(lambda one: one.user == "eve") == [kept[4].session]
    assert len(idle) == 1
