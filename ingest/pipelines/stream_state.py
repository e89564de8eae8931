"""What the stream of a source says of a table whose row is older than it: the row takes
over the name of its load, or the table needs a resync. The chain is right."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings

from core.errors import TerminalError
from ingest.lake.chain import ChainIndex, stream_folder
from ingest.lake.hudi.options import CommitPosition
from ingest.models import Pipeline
from ingest.pipelines import transitions
from ingest.pipelines.log_tables import stream_of


@dataclass(slots=True)
class Streams:
    """Each is read once: all footers of what is kept of it."""

    _read: dict[str, ChainIndex] = field(default_factory=dict)

    def of_source(self, source_id: int) -> ChainIndex:
        """TerminalError when the stream was never begun, or is broken."""
        stream = stream_of(source_id)
        if stream not in self._read:
            folder = stream_folder(settings.SLUICE_LAKE_URI, stream)
            index = ChainIndex(folder, stream)
            while index.refresh():
                pass
            self._read[stream] = index
        return self._read[stream]


def follow_stream(
    pipeline: Pipeline, position: CommitPosition, streams: Streams
) -> str:
    """Why only a new load brings a loaded table on; "" = it goes on where it is, with
    the load that the stream knows."""
    table_id = pipeline.lake_table_id
    assert table_id is not None
    try:
        index = streams.of_source(pipeline.source_table.database.datasource_id)
    except TerminalError as error:
        return error.message
    known = index.tables().get(table_id)
    if known is None or not known.load:
        return "the stream of its source does not know it"
    if known.cut > position.epoch_to:
        return "a load of it had begun that is not in the lake"
    if index.is_lost(table_id, position.epoch_to):
        return "segments of its stream that it had not applied are gone"
    at = position.load.at if position.load else position.end
    transitions.set_columns(pipeline, load_name=known.load, bound=known.at or at)
    return ""
