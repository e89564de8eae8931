"""The end of following a source: its stream says that no table goes on by it, what it
kept is deleted, and the source gets its log back.

Each step may be done twice: whoever dies between two begins again.
"""

from __future__ import annotations

from collections.abc import Callable

from ingest.contract.following import FollowSpec
from ingest.contract.segments import Control
from ingest.follower.collector import Collector
from ingest.lake.chain import ChainIndex, stream_folder, take_over
from ingest.lake.segment_files import SegmentBuilder


def release(spec: FollowSpec, give_back: Callable[[], None]) -> None:
    """give_back: at the source; last, for a stream without its slot is a lost one."""
    folder = stream_folder(spec.lake, spec.stream)
    if (folder / "beginning.json").read() is not None:
        _end_tables(spec)
        Collector(folder, spec.stream, list).collect()
    give_back()


def _end_tables(spec: FollowSpec) -> None:
    index = ChainIndex(stream_folder(spec.lake, spec.stream), spec.stream)
    while index.refresh():
        pass
    newest, known = index.newest, index.tables()
    left = [pk for pk, state in known.items() if state.state != "removed"]
    if newest is None or not left:
        return
    chain = take_over(
        index.folder,
        stream=spec.stream,
        writer=spec.writer,
        server=newest.server,
        begin=newest.end,
    )
    controls = [Control("removed", table_id) for table_id in left]
    SegmentBuilder(chain).close(end=chain.last.end, controls=controls)
