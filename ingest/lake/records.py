"""Records of sources and tables, as files of the lake: `_sluice/sources/<id>.json` and
`_sluice/tables/<id>.json`. It must not know rows."""

from __future__ import annotations

from typing import TypeVar

from core.errors import StaleState, TerminalError
from ingest.contract import members
from ingest.contract.records import VERSION, SourceRecord, TableRecord, decode_record
from ingest.lake.place import place_at
from ingest.lake.port import Place

Record = SourceRecord | TableRecord
T = TypeVar("T", SourceRecord, TableRecord)


def write_record(lake: str, record: Record) -> None:
    """Durable when it returns; it replaces the former one. StaleState `other_record`
    when that is about something else: of a database that was lost, whose ids this one
    gives out again."""
    own = record.source_id if isinstance(record, SourceRecord) else record.table_id
    place = _place(lake, type(record), own)

    def changed(text: str | None) -> str:
        former = _subject(type(record), text, of=place.uri)
        if former not in {"", record.subject}:
            raise StaleState(
                "the lake's record %(place)s is of %(former)s, not %(subject)s",
                place=place.uri,
                former=former,
                subject=record.subject,
                code="other_record",
                hint="this database is not the one that the lake belongs to: run"
                " manage.py rebuild before anything is added",
            )
        return members.encode(record, version=VERSION)

    place.update(changed)


def _subject(kind: type[Record], text: str | None, *, of: str) -> str:
    """ "" when there is none that can be read."""
    if text is None:
        return ""
    try:
        return decode_record(kind, text, of=of).subject
    except TerminalError:
        return ""


def delete_record(lake: str, kind: type[Record], record_id: int) -> None:
    _place(lake, kind, record_id).delete()


def recorded(lake: str, kind: type[Record]) -> list[int]:
    """Their ids, in order."""
    names = (name.partition(".json") for name in _folder(lake, kind).names())
    return sorted(
        int(stem) for stem, end, more in names if end and not more and stem.isdecimal()
    )


def stored_record(lake: str, kind: type[T], record_id: int) -> T | None:
    place = _place(lake, kind, record_id)
    found = place.read()
    return None if found is None else decode_record(kind, found, of=place.uri)


def _folder(lake: str, kind: type[Record]) -> Place:
    name = "sources" if kind is SourceRecord else "tables"
    return place_at(lake) / "_sluice" / name


def _place(lake: str, kind: type[Record], record_id: int) -> Place:
    return _folder(lake, kind) / f"{record_id}.json"
