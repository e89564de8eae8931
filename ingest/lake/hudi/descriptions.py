"""Hudi's words for what is on a timeline, as sentences name it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from core.sentences import Sentence

ACTIONS: Mapping[str, str] = {
    "compaction": Sentence("compaction"),
    "deltacommit": Sentence("deltacommit"),
    "commit": Sentence("commit"),
    "replacecommit": Sentence("replacecommit"),
    "rollback": Sentence("rollback"),
    "clean": Sentence("clean"),
    "restore": Sentence("restore"),
    "indexing": Sentence("indexing"),
}
STATES: Mapping[str, str] = {
    "REQUESTED": Sentence("requested"),
    "INFLIGHT": Sentence("inflight"),
    "COMPLETED": Sentence("completed"),
}


def named(action: str, instant: str) -> Sentence:
    """As "compaction 20260101000000000"."""
    return Sentence(
        "%(action)s %(instant)s", action=ACTIONS.get(action, action), instant=instant
    )


def in_state(action: str, state: str) -> Sentence:
    """As "compaction inflight"."""
    return Sentence(
        "%(action)s %(state)s",
        action=ACTIONS.get(action, action),
        state=STATES.get(state, state.lower()),
    )
