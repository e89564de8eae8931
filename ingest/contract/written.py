"""What was written of a table, added up over instants that may be archived since. Pure.

Whoever counts keeps the sums up to where it got; what came since is the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wrote:
    """A completed instant, or several of one action of which the newest completed then.
    `completed` as Hudi names it, 17 digits in UTC."""

    completed: str
    action: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Totals:
    """All that completed up to `upto`, by action; "" = nothing was counted."""

    upto: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)

    def plus(self, wrote: Iterable[Wrote]) -> Totals:
        upto, rows, sizes = self.upto, dict(self.rows), dict(self.bytes)
        for one in wrote:
            upto = max(upto, one.completed)
            rows[one.action] = rows.get(one.action, 0) + one.rows
            sizes[one.action] = sizes.get(one.action, 0) + one.bytes
        return Totals(upto, rows, sizes)

    def since(self, before: Totals) -> list[Wrote]:
        """One for each action. Of a table that was made anew less may be counted than
        before: nothing then."""
        found = []
        for action, size in self.bytes.items():
            rows = self.rows.get(action, 0) - before.rows.get(action, 0)
            grown = size - before.bytes.get(action, 0)
            if rows > 0 or grown > 0:
                found.append(Wrote(self.upto, action, max(0, rows), max(0, grown)))
        return found
