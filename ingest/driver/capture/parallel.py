"""The same work on several items at once, inside one job's Spark tag and pool.

Stops at the first failure. It must not know what the items are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from pyspark import InheritableThread, SparkContext

from ingest.driver.apply.jobrun import JobRun

T = TypeVar("T")


def enter_lane(run: JobRun) -> None:
    """Makes Spark jobs of this thread run in the job's pool, under its tag."""
    context = SparkContext._active_spark_context
    assert context is not None, "a driver has a session before it has jobs"
    context.setLocalProperty("spark.scheduler.pool", run.spec.lane)
    context.setInterruptOnCancel(True)
    context.addJobTag(run.tag)


def run_parallel(
    run: JobRun, items: Iterable[T], work: Callable[[T], None], *, threads: int
) -> None:
    """Calls `work` for every item on up to `threads` threads, in their order."""
    queue = iter(items)
    lock = threading.Lock()
    failures: list[BaseException] = []

    def next_item() -> tuple[T] | None:
        with lock:
            if failures:
                return None
            found = next(queue, None)
            return None if found is None else (found,)

    def serve() -> None:
        try:
            enter_lane(run)
            while (item := next_item()) is not None:
                run.check()
                work(item[0])
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            with lock:
                failures.append(error)

    crew = [InheritableThread(target=serve) for _ in range(max(1, threads))]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if failures:
        raise failures[0]
