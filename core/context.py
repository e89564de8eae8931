"""Who and what the current thread works for, carried into logs, jobs and audit.

Set by each door (HTTP middleware, worker, gateway); read by anything below.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Context:
    """request_id, job_id  correlate log lines
    actor, door, address  who asked, through which door, from where (audit)
    """

    request_id: str = ""
    job_id: str = ""
    actor: str = ""
    door: str = ""
    address: str = ""


_EMPTY = Context()
_current: ContextVar[Context] = ContextVar("sluice_context", default=_EMPTY)


def current() -> Context:
    return _current.get()


def current_request_id() -> str:
    """The id of the request being served, "" outside of one."""
    return _current.get().request_id


@contextmanager
def working_for(**changes: str) -> Iterator[Context]:
    """The current context with `changes`, until the block ends."""
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def name_actor(actor: str) -> None:
    """Say who the caller turned out to be, once a door has authenticated them."""
    _current.set(replace(_current.get(), actor=actor))
