"""Work that several do at the same moment, each on a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection, connections

from tests.waiting import LIMIT_SECONDS

T = TypeVar("T")


def at_once(work: Callable[[int], T], *, times: int) -> list[T]:
    """What `work` returns for 0, 1, ... in threads that begin together; the first error
    is raised here."""
    together = threading.Barrier(times)

    def one(number: int) -> T:
        try:
            connection.ensure_connection()  # which takes longer than most work
            together.wait(LIMIT_SECONDS)
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(times) as pool:
        begun = [pool.submit(one, number) for number in range(times)]
        return [each.result(LIMIT_SECONDS) for each in begun]
