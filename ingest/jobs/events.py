"""What happens to a job, in order, from any point on: moves, log lines, progress.

Each look is one statement, so its rows and the job's state belong together. Moves and
lines are told once each; of progress only the newest counts. Must not know HTTP.
"""

from __future__ import annotations

import heapq
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from core.errors import InvalidRequest, NotFound
from core.jobs import TERMINAL
from core.sentences import restored

MOST = 500
_FORM = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{8})(-end)?", re.ASCII)
_ROWS = """
(SELECT 'state', id, at, json_build_object('event', event, 'before', before,
        'after', after, 'actor', actor, 'reason', reason)::text
   FROM core_jobevent WHERE job_id = %(job)s AND id > %(move)s
  ORDER BY id LIMIT %(most)s)
UNION ALL
(SELECT 'log', id, at, json_build_object('level', level, 'message', message)::text
   FROM core_joblog WHERE job_id = %(job)s AND id > %(line)s
  ORDER BY id LIMIT %(most)s)
UNION ALL
(SELECT 'progress', 0, coalesce(progress_at, created_at), json_build_object(
        'state', state, 'reason', reason, 'phase', phase,
        'done', done, 'total', total, 'unit', unit)::text
   FROM core_job WHERE id = %(job)s)
"""


@dataclass(frozen=True, slots=True)
class Position:
    """Everything up to here has been told; `progress` is a sum of the last one."""

    move: int = 0
    line: int = 0
    progress: str = "00000000"
    is_end: bool = False

    def __str__(self) -> str:
        end = "-end" if self.is_end else ""
        return f"{self.move}-{self.line}-{self.progress}{end}"


def position_from(text: str) -> Position:
    """The start for ""; InvalidRequest for what no stream has sent."""
    if not text:
        return Position()
    found = _FORM.fullmatch(text)
    if found is None:
        raise InvalidRequest(
            "this is no id of a job's event",
            code="invalid_event_id",
            hint="send the id of the last event you have, or none",
        )
    return Position(int(found[1]), int(found[2]), found[3], bool(found[4]))


@dataclass(frozen=True, slots=True)
class JobNews:
    """kind: "state", "log", "progress". `position` is where to go on behind it."""

    kind: str
    at: datetime
    data: dict[str, Any]
    position: Position


@dataclass(frozen=True, slots=True)
class Look:
    """What is new, oldest first. is_finished: the job has ended and this is all."""

    items: tuple[JobNews, ...]
    position: Position
    state: str
    is_more: bool
    is_finished: bool


def look(job_id: UUID, since: Position, *, most: int = MOST) -> Look:
    """At most `most` moves and lines behind `since`, and the progress if it changed."""
    asked: dict[str, UUID | int] = {
        "job": job_id,
        "move": since.move,
        "line": since.line,
        "most": most + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, asked)
        rows = cursor.fetchall()
    moves = [row for row in rows if row[0] == "state"]
    lines = [row for row in rows if row[0] == "log"]
    last = next((row for row in rows if row[0] == "progress"), None)
    if last is None:
        raise NotFound(
            "there is no job %(job_id)s", job_id=job_id, code="job_not_found"
        )
    # by time between the two, by number within each: nothing is overtaken
    merged = list(heapq.merge(_by_id(moves), _by_id(lines), key=lambda row: row[2]))
    is_more = len(merged) > most
    items = list(_told(merged[:most], since))
    position = items[-1].position if items else since
    progress = zlib.crc32(last[3].encode())
    if not is_more and f"{progress:08x}" != since.progress:
        position = replace(position, progress=f"{progress:08x}")
        items.append(JobNews("progress", last[2], _data(last[3]), position))
    state = str(json.loads(last[3])["state"])
    return Look(
        items=tuple(items),
        position=position,
        state=state,
        is_more=is_more,
        is_finished=state in TERMINAL and not is_more,
    )


def _by_id(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row[1])


def _told(rows: list[Any], since: Position) -> Iterator[JobNews]:
    position = replace(since, is_end=False)
    for kind, pk, at, data in rows:
        name = "move" if kind == "state" else "line"
        position = replace(position, **{name: pk})
        yield JobNews(kind, at, _data(data), position)


def _data(raw: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(raw)
    return data | {"reason": restored(data["reason"])} if "reason" in data else data
