"""What users have to know of the shards of a table, and what mends it. Alerts, pages
and REST have it from here, the one that matters most first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.sentences import Sentence
from ingest.models import Pipeline
from ingest.pipelines import gone_shards, shard_joins, shards
from ingest.planning.plan import plan_from_json

MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class _Kind:
    """message: with `pattern` and `names`. repair: the action that mends it."""

    code: str
    message: str
    hint: str
    repair: str


@dataclass(frozen=True, slots=True)
class ShardMatter(_Kind):
    names: tuple[str, ...]


_GONE = _Kind(
    "shards_gone",
    "tables of %(pattern)s that are gone at the source, and whose rows are in the lake:"
    " %(names)s. The others go on",
    hint="decide whether their rows are kept or deleted",
    repair="leave-shards",
)
_NOT_TAKEN = _Kind(
    "shards_not_read",
    "tables of %(pattern)s that came at the source and are not read: %(names)s",
    hint="let them join, which reads only them; or exclude them",
    repair="join-shards",
)
_UNREAD = _Kind(
    "shards_unread",
    "tables of %(pattern)s that are not read yet, so their rows are missing in the"
    " lake: %(names)s",
    hint="see whether the job that reads them goes on; else let them join again, or"
    " resync the table",
    repair="join-shards",
)


def matters_of(pipeline: Pipeline) -> Iterator[ShardMatter]:
    """A statement for each sort where the table is a sharded one, else none."""
    if not shards.is_sharded(pipeline):
        return
    found = (
        (_GONE, [one.name for one in gone_shards.undecided(pipeline)]),
        (_NOT_TAKEN, [shards.name_of(one) for one in shards.not_taken(pipeline)]),
        (_UNREAD, [one.name for one in shard_joins.unread(pipeline)]),
    )
    pattern = plan_from_json(pipeline.plan).source
    yield from (_of(kind, pattern, names) for kind, names in found if names)


def _of(kind: _Kind, pattern: str, names: Sequence[str]) -> ShardMatter:
    shown = ", ".join(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown += f", … ({len(names)})"
    message = Sentence(kind.message, pattern=pattern, names=shown)
    return ShardMatter(kind.code, message, kind.hint, kind.repair, tuple(names))
