"""The port to captures: whatever follows a source seals epochs, and apply reads them.

A follower of a cursor seals one epoch of one table for each incremental sync; one of a
log would seal epochs of many tables, one after another. They meet apply in the lake.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ingest.contract.epochs import Seal


@dataclass(frozen=True, slots=True)
class Captured:
    """An epoch that is sealed, and what the report tells of its reading."""

    seal: Seal
    facts: Mapping[str, Any]


class Follower(Protocol):
    """Closes the changes of a source into epochs. What it seals is what it has read: a
    replay ends in the same epochs, and what was never sealed is read again."""

    @property
    def epoch(self) -> int:
        """The number of the next epoch, which nobody else has."""

    def capture(self, lacking: Collection[str]) -> Captured:
        """Reads on behind the last epoch and closes the next one.

        lacking  lake names of columns that the lake table does not have yet
        """

    def replay(self, seal: Seal) -> Captured:
        """The epoch that a former attempt closed."""
