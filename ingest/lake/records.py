"""Records of sources and tables, as files of the lake: `_sluice/sources/<id>.json` and
`_sluice/tables/<id>.json`. It must not know rows."""

from __future__ import annotations

from core.errors import StaleState, TerminalError
from ingest.contract.records import (
    SourceRecord,
    TableRecord,
    decode_record,
    encode_record,
)
from ingest.lake.place import place_at
from ingest.lake.port import Place


def write_record(lake: str, record: SourceRecord | TableRecord) -> None:
    """Durable when it returns; it replaces the former one. StaleState `other_record`
    when that is about something else: of a database that was lost, whose ids this one
    gives out again."""
    if isinstance(record, SourceRecord):
        place = _place(_sources(lake), record.source_id)
    else:
        place = _place(_tables(lake), record.table_id)

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
        return encode_record(record)

    place.update(changed)


def _subject(
    kind: type[SourceRecord | TableRecord], text: str | None, *, of: str
) -> str:
    """ "" when there is none that can be read."""
    if text is None:
        return ""
    try:
        return decode_record(kind, text, of=of).subject
    except TerminalError:
        return ""


def delete_source_record(lake: str, source_id: int) -> None:
    _place(_sources(lake), source_id).delete()


def delete_table_record(lake: str, table_id: int) -> None:
    _place(_tables(lake), table_id).delete()


def recorded_sources(lake: str) -> list[int]:
    return _ids(_sources(lake))


def recorded_tables(lake: str) -> list[int]:
    """Their ids, in order."""
    return _ids(_tables(lake))


def read_source_record(lake: str, source_id: int) -> SourceRecord | None:
    place = _place(_sources(lake), source_id)
    found = place.read()
    return None if found is None else decode_record(SourceRecord, found, of=place.uri)


def read_table_record(lake: str, table_id: int) -> TableRecord | None:
    place = _place(_tables(lake), table_id)
    found = place.read()
    return None if found is None else decode_record(TableRecord, found, of=place.uri)


def _sources(lake: str) -> Place:
    return place_at(lake) / "_sluice" / "sources"


def _tables(lake: str) -> Place:
    return place_at(lake) / "_sluice" / "tables"


def _place(folder: Place, record_id: int) -> Place:
    return folder / f"{record_id}.json"


def _ids(folder: Place) -> list[int]:
    names = (name.partition(".json") for name in folder.names())
    return sorted(
        int(stem) for stem, end, more in names if end and not more and stem.isdecimal()
    )
