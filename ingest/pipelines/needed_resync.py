"""The re-sync that a table needs, noted until a load is committed: no pause, cancelled
re-sync or resume forgets it, nor does a source that takes its change back.

A change that gave old rows other values left their cursors alone, so no sync reads them
again. It must not know how a table moves between its states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from catalog.schema.diff import SchemaChange
from core.sentences import Sentence, joined, restored, stored
from ingest.models import Pipeline

# Among the notes of columns, which are kept by their names.
TABLE = ""
# Old values may have changed, and nobody has decided; a decision, or none to make any
# more, makes it needed.
_SEEN, _NEEDED = "seen", "needed"


def note_seen(pipeline: Pipeline, changes: Iterable[SchemaChange]) -> None:
    """These wait for a decision. One that is needed is decided anew, too."""
    said = _as_stored(changes)
    # what is loaded once is as old as its load, and promises nothing else
    if said and pipeline.capture != "snapshot":
        _note(pipeline, _SEEN, said)


def note_needed(
    pipeline: Pipeline, changes: Iterable[SchemaChange] = (), *, why: str = ""
) -> None:
    """changes: which only a fresh copy brings; why: in words, for another reason."""
    _note(pipeline, _NEEDED, _as_stored(changes), stored(why))


def decide(pipeline: Pipeline) -> bool:
    """Nothing waits for a decision any more; whether that makes it needed."""
    if pipeline.drift.get(TABLE, {}).get("state") != _SEEN:
        return False
    _note(pipeline, _NEEDED)
    return True


def is_noted(pipeline: Pipeline, *, without: Collection[SchemaChange] = ()) -> bool:
    """without: changes of columns that are set aside, which concern no row then."""
    note = pipeline.drift.get(TABLE, {})
    return bool(note.get("why") or _others(note, without)) if without else bool(note)


def forget(pipeline: Pipeline, changes: Collection[SchemaChange]) -> None:
    """Their columns are set aside."""
    if not changes or not (former := pipeline.drift.get(TABLE)):
        return
    note = {**former, "changes": _others(former, changes)}
    is_left = is_noted(pipeline, without=changes)
    rest = {k: v for k, v in pipeline.drift.items() if k != TABLE}
    pipeline.drift = rest | ({TABLE: note} if is_left else {})
    Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)


def _as_stored(changes: Iterable[SchemaChange]) -> list[str]:
    return [stored(change.as_sentence) for change in changes]


def _others(note: Mapping[str, Any], changes: Iterable[SchemaChange]) -> list[str]:
    gone = _as_stored(changes)
    return [said for said in note.get("changes", ()) if said not in gone]


def altered(pipeline: Pipeline) -> str:
    """The changes at the source that only a re-sync brings, in a sentence; ""."""
    note = _needed(pipeline)
    if not note.get("changes"):
        return ""
    changes = joined(map(restored, note["changes"]))
    return Sentence(
        "rows from before this change may differ until a resync: %(changes)s",
        changes=changes,
    )


def why_needed(pipeline: Pipeline) -> str:
    """In a sentence; "" = it is not needed."""
    return altered(pipeline) or restored(_needed(pipeline).get("why", ""))


def after_load(pipeline: Pipeline) -> dict[str, Any]:
    """The notes without it. A change that waits for a decision may be younger than
    the rows that were read."""
    return {k: v for k, v in pipeline.drift.items() if v["state"] != _NEEDED}


def _needed(pipeline: Pipeline) -> Mapping[str, Any]:
    note = pipeline.drift.get(TABLE, {})
    return note if note.get("state") == _NEEDED else {}


def _note(
    pipeline: Pipeline, state: str, changes: Iterable[str] = (), why: str = ""
) -> None:
    if pipeline.lake_table is None or not pipeline.lake_table.is_queryable:
        return
    former = pipeline.drift.get(TABLE, {})
    # in order, each once
    said = dict.fromkeys([*former.get("changes", ()), *changes])
    note = {
        "state": state,
        "changes": list(said),
        "why": why or former.get("why", ""),
    }
    if note != former:
        pipeline.drift = {**pipeline.drift, TABLE: note}
        Pipeline.objects.filter(pk=pipeline.pk).update(drift=pipeline.drift)
