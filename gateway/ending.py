"""Ends many things at once and waits for them only so long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable

# an engine that does not answer delays no later check of rights and logins
ENDING_SECONDS = 2.0
_under_way: set[asyncio.Task[None]] = set()


async def end_all(
    endings: Iterable[Coroutine[None, None, None]], *, seconds: float | None = None
) -> None:
    """Begin all of them in one step of the loop; those that take longer go on alone."""
    tasks = {asyncio.ensure_future(one) for one in endings}
    if not tasks:
        return
    _under_way.update(tasks)
    for task in tasks:
        task.add_done_callback(_under_way.discard)
    await asyncio.wait(tasks, timeout=ENDING_SECONDS if seconds is None else seconds)
