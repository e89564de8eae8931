"""Which sources shall be followed."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.models import SourceFollower
from ingest.pipelines.followers import (
    abandoned_followers,
    followers_of_sources,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """is_over: nothing of it is followed any more, what was made there has to go."""

    row: SourceFollower
    is_over: bool = False


def wanted_sources() -> dict[int, Wanted]:
    """By id of the datasource, which comes with its row."""
    followed = {
        row.datasource_id: Wanted(row)
        for row in followers_of_sources()
        if row.desired == SourceFollower.RUNNING
    }
    over = {
        row.datasource_id: Wanted(row, is_over=True) for row in abandoned_followers()
    }
    return over | followed
