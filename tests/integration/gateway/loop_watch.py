"""Measures the CPU of every step on a gateway's event loop: one that takes long stops
all clients. Counts the loop thread's own CPU without the garbage collector's.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

# Of one step, measured once: on a busy machine, whose caches others empty, a step of 20
# milliseconds takes three times as much.
MOST_SECONDS = 0.2


class Watched(Coroutine):
    """A coroutine whose steps are measured."""

    def __init__(self, inner: Coroutine, watch: LoopWatch) -> None:
        self._inner = inner
        self._watch = watch
        self.__name__ = getattr(inner, "__qualname__", repr(inner))
        self.__qualname__ = self.__name__

    def send(self, value: Any) -> Any:
        return self._watch.measured(self.__name__, self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return self._watch.measured(self.__name__, self._inner.throw, *error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator:
        return self._inner.__await__()


@dataclass
class LoopWatch:
    """`slow` holds the steps over MOST_SECONDS of CPU, by name."""

    slow: list[str] = field(default_factory=list)
    steps: int = 0
    _thread: int = 0
    _collecting: float = 0.0
    _collected: float = 0.0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure the tasks made from now on. Call it on the loop's thread."""
        self._thread = threading.get_ident()
        loop.set_task_factory(self._task)
        gc.callbacks.append(self._collects)

    def end(self) -> None:
        gc.callbacks.remove(self._collects)

    def watch(self, owner: type, method: str, monkey: Callable) -> None:
        """Measure a callback, which is no task's step."""
        inner = getattr(owner, method)

        def measured(*arguments: Any) -> Any:
            if threading.get_ident() != self._thread:
                return inner(*arguments)
            return self.measured(f"{owner.__name__}.{method}", inner, *arguments)

        monkey(owner, method, measured)

    def measured(self, name: str, step: Callable, *arguments: Any) -> Any:
        self.steps += 1
        began, collected = time.thread_time(), self._collected
        try:
            return step(*arguments)
        finally:
            spent = time.thread_time() - began - (self._collected - collected)
            if spent > MOST_SECONDS:
                self.slow.append(f"{name}: {spent * 1000:.0f} ms")

    def _task(self, loop: Any, coroutine: Any, **options: Any) -> asyncio.Task:
        return asyncio.Task(Watched(coroutine, self), loop=loop, **options)

    def _collects(self, phase: str, facts: dict) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting
