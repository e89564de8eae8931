"""One run of a statement in an engine, until its first rows are there.

Must not know clients, handles or the wire, nor which session of an engine it is.
"""

from __future__ import annotations

import time

from gateway.engines.port import (
    EngineColumn,
    EngineOperation,
    EngineRefused,
    EngineUnavailable,
    OperationState,
    Orientation,
)
from gateway.faults import TIMED_OUT
from gateway.operation import Operation, Run
from gateway.result_reader import ResultReader, first_rows
from gateway.services import Services


async def run_to_first_rows(
    services: Services, run: Run, operation: Operation, *, until: float | None
) -> None:
    """Send the statement and return when its first rows are there, or that there are
    none, or when its user left it; who calls it then has the engine drop the run.

    EngineRefused when it fails, or has not ended by `until`.
    """
    most = first_rows(services.read_ahead) if operation.has_result_set else 0
    run.handle, first = await run.engine.query(
        operation.statement, operation.settings, most
    )
    if operation.state in {OperationState.INITIALIZED, OperationState.PENDING}:
        operation.advance("run")
    run.reader = reader = ResultReader(run.engine, run.handle, services.read_ahead)
    has_rows = False
    try:
        columns = await reader.begin(first, most)
        while columns is None:
            await _end(services, run, operation, until)
            if operation.is_left:
                return
            again = run.engine.fetch(run.handle, Orientation.NEXT, most)
            columns = await reader.begin(again, most)
        run.is_over = True
        operation.log_line(stage_line(1, 1))
        if operation.has_result_set:
            _keep_columns(run, operation, columns)
            has_rows = True
    except EngineRefused:
        if not operation.is_left:  # else it was told to drop what it is asked about
            raise
    finally:
        if not has_rows:
            reader.close()
            run.reader = None
        _note_reads(services, run, run.handle)


async def _end(
    services: Services, run: Run, operation: Operation, until: float | None
) -> None:
    """Wait until the engine has planned it, and computed what has to be at once."""
    handle = run.handle
    assert handle is not None
    status = await run.engine.status(handle)
    while not status.state.is_terminal and not operation.is_left:
        counts = services.supervisor.client.progress(handle)
        if counts:
            operation.log_line(stage_line(counts.tasks_done, counts.tasks))
        if status.message:
            operation.log_line(status.message)
        if until and time.time() > until:
            raise overdue()
        _note_reads(services, run, handle)
        status = await run.engine.status(handle)
    run.is_over = status.state.is_terminal
    if operation.is_left:
        return
    if status.state in {OperationState.CANCELED, OperationState.CLOSED}:
        operation.stop("cancel")
    elif status.state is OperationState.TIMEDOUT:
        operation.stop("time_out")
    elif status.state is not OperationState.FINISHED:
        raise EngineRefused(
            status.message, sql_state=status.sql_state, error_code=status.error_code
        )


def _note_reads(services: Services, run: Run, handle: EngineOperation) -> None:
    """Take what the engine has told so far: it keeps that for a while only."""
    run.reads = services.supervisor.client.reads(handle) or run.reads


def _keep_columns(
    run: Run, operation: Operation, columns: tuple[EngineColumn, ...]
) -> None:
    if operation.state is OperationState.FINISHED and operation.columns != columns:
        raise EngineUnavailable(
            "the engine that held this result is gone, and the table's columns"
            " have changed since",
            hint="run the statement again",
        )
    run.columns = columns


def overdue() -> EngineRefused:
    """The error of a second run that does not end in the time of its statement."""
    return EngineRefused(
        "the engine that held this result ended, and the statement has no time left to"
        " run again",
        sql_state=TIMED_OUT,
    )


def stage_line(done: int, total: int) -> str:
    """Return progress as Hive's log has it: clients find their bar's state in that."""
    return f"INFO  : Stage-1 map = {100 * done // total}%,  reduce = 0%"
