"""State machines as tables: the only place where a legal move is written down.

Pure: no Django, no clock. `core.advance` applies a table to a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.errors import IllegalTransition
from core.sentences import Sentence


@dataclass(frozen=True)
class Transitions:
    """(state, event) -> next state, with the groups that callers ask about.

    why: one sentence per event, shown in the generated docs/states.md.
    """

    name: str
    initial: str
    arrows: Mapping[tuple[str, str], str]
    terminal: frozenset[str] = frozenset()
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        seen = [self.initial]
        for (before, _), after in self.arrows.items():
            seen += [s for s in (before, after) if s not in seen]
        return tuple(dict.fromkeys(seen))

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(event for _, event in self.arrows))

    def legal(self, state: str) -> tuple[str, ...]:
        return tuple(event for (before, event) in self.arrows if before == state)

    def states_before(self, event: str) -> frozenset[str]:
        """The states in which this event is legal."""
        return frozenset(before for before, each in self.arrows if each == event)

    def is_legal(self, state: str, event: str) -> bool:
        return (state, event) in self.arrows

    def after(self, state: str, event: str) -> str:
        """The next state, or IllegalTransition naming what would be legal."""
        try:
            return self.arrows[(state, event)]
        except KeyError:
            legal = ", ".join(self.legal(state)) or Sentence("nothing (it is final)")
            raise IllegalTransition(
                "%(machine)s in state %(state)s cannot take '%(event)s'",
                events=legal,
                machine=Sentence(self.name),
                state=Sentence(state),
                event=event,
                hint="legal now: %(events)s",
                facts={"state": state, "event": event},
            ) from None


def fan(states: tuple[str, ...], event: str, after: str) -> dict[tuple[str, str], str]:
    """The same arrow from several states, so that tables stay readable."""
    return {(state, event): after for state in states}
