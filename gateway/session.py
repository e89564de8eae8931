"""One user's session: its settings, its database, its operations.

Nothing is asked of an engine before the first statement. Must not know sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Mapping

from catalog.access.proofs import Proof
from catalog.like import escaped
from core.errors import AccessDenied, InvalidRequest, SluiceError
from core.sentences import Sentence
from gateway.engines.port import (
    EngineRefused,
    EngineUnavailable,
    FetchedBatch,
    OperationState,
    Orientation,
)
from gateway.faults import (
    DENIED,
    ENGINE_AWAY,
    GENERAL,
    NAME_TOO_LONG,
    NO_PLACE,
    NO_SUCH_SCHEMA,
    RAN_SHORT,
    TIMED_OUT,
    TOO_COMPLEX,
    TOO_LARGE,
    UNSUPPORTED,
    Fault,
    clean,
    in_hive_format,
)
from gateway.hs2.values import V6, Handle, OperationType
from gateway.limits import LONGEST_NAME
from gateway.operation import Context, Operation, RunEnd, new_handle
from gateway.result_reader import ResultReader
from gateway.services import Services
from gateway.session_engine import SessionEngine
from gateway.settable import LAKE_CATALOGS, SessionSettings, require_settable
from gateway.statement import Kind, StatementRule, rule_of
from gateway.statement_audit import LONGEST_AUDITED, StatementAudit
from gateway.statement_run import overdue
from gateway.work_queue import DatabaseAway

log = logging.getLogger(__name__)

WHOLE_SECONDS = 2.0  # for an engine to say whether it has all rows of a result
_STATES = {
    "schema_not_found": NO_SUCH_SCHEMA,
    "live_source_used": UNSUPPORTED,
    "statement_too_long": TOO_COMPLEX,
    "name_too_long": NAME_TOO_LONG,
    "pattern_too_long": TOO_LARGE,
}


class Session:
    """A session of `user`. `proof` is what the login rested on that opened it;
    `connection` keeps it open, None where nothing does. `is_pooled`: the engine's half
    may come from another such session of the user, and go to the next."""

    def __init__(
        self,
        services: Services,
        user: str,
        *,
        protocol: int,
        address: str = "",
        settings: SessionSettings | None = None,
        is_pooled: bool = False,
    ) -> None:
        self.proof: Proof | None = None
        self.connection: object | None = None
        self.handle: Handle = new_handle()
        self.id = str(uuid.uuid4())  # for administrators: opens nothing
        self.opened = time.time()
        self.client = f"HiveServer2 protocol V{protocol + 1}"
        self.user = user
        self.protocol = protocol
        self.operations: dict[bytes, Operation] = {}
        self.touched = time.monotonic()
        self.database = Context().database
        self.address = address
        self._services = services
        self._audit = StatementAudit(services.store, user, address=address)
        self._engine = SessionEngine(
            services,
            user,
            (settings or SessionSettings()).engine,
            is_pooled=is_pooled,
        )
        self._timers: set[asyncio.Task[None]] = set()

    @property
    def has_engine(self) -> bool:
        return self._engine.is_open

    def warm(self) -> None:
        """Open the engine's session ahead of the first statement."""
        self._engine.warm(self.context)

    @property
    def context(self) -> Context:
        """What is current for a statement that is sent now."""
        return Context(self.database, self._engine.changes)

    async def use(self, database: str) -> None:
        """Make `database` current; InvalidRequest when the user cannot see it."""
        if len(database) > LONGEST_NAME:
            raise InvalidRequest(
                "a name has %(count)s characters; at most %(most)s are accepted",
                count=len(database),
                most=LONGEST_NAME,
                code="name_too_long",
            )
        if database.lower() != Context().database:
            pattern = escaped(database)
            names = await self._services.store.databases(self.user, pattern, limit=1)
            if names != [database.lower()]:
                await self._refuse_live(database)
                raise InvalidRequest(
                    "[SCHEMA_NOT_FOUND] The schema `%(database)s` cannot be found."
                    " Verify the spelling and correctness of the schema and"
                    " catalog.",
                    database=database,
                    code="schema_not_found",
                )
        self.database = database.lower()

    async def _refuse_live(self, database: str) -> None:
        source = database.lower().partition(".")[0]
        if source in await self._services.store.live_names(self.user, "", ""):
            raise InvalidRequest(
                "[UNSUPPORTED_FEATURE] USE knows databases of the lake only. Of a"
                " live source write whole names: %(source)s, its database's and the"
                " table's",
                source=source,
                code="live_source_used",
            )

    def start(
        self,
        statement: str,
        *,
        timeout_seconds: float = 0,
        settings: Mapping[str, str] | None = None,
    ) -> Operation:
        """Begin a statement and return its operation. `settings` hold for it alone."""
        limits = self._services.limits
        if len(self.operations) >= limits.operations_per_session:
            raise self._too_many()
        if len(statement) > limits.max_statement:
            raise InvalidRequest(
                "the statement has %(count)s characters; at most %(most)s are accepted",
                count=len(statement),
                most=limits.max_statement,
                code="statement_too_long",
            )
        rule = rule_of(statement)
        _refuse_settings(rule, settings)
        release = self._services.hold_text(self.user, len(statement))
        try:
            self._services.open_statement(self.user)
        except InvalidRequest:
            release()
            raise
        operation = Operation(
            OperationType.EXECUTE_STATEMENT,
            statement,
            rule.has_result_set,
            settings=settings or {},
            context=self.context,
            limit=timeout_seconds,
        )
        self.add(operation)
        operation.runner = asyncio.create_task(self._run(operation, rule))
        operation.runner.add_done_callback(lambda _: release())
        if timeout_seconds > 0:
            timer = asyncio.create_task(self._time_out(operation, timeout_seconds))
            self._timers.add(timer)
            timer.add_done_callback(self._timers.discard)
        return operation

    async def make_room(self) -> None:
        """Before a metadata call: let the oldest answers go when there are too many,
        or too many rows in them. InvalidRequest when all are statements."""
        limits = self._services.limits
        answers = [o for o in self.operations.values() if o.local]
        rows = sum(len(o.local.rows) for o in answers if o.local)
        while (
            len(self.operations) >= limits.operations_per_session
            or rows > limits.answered_rows_per_session
        ):
            if not answers:
                raise self._too_many()
            oldest = answers.pop(0)
            rows -= len(oldest.local.rows) if oldest.local else 0
            await self.free(oldest)

    async def keep(self, answer: Operation) -> None:
        """Count the rows of an answer, which may cost the user older ones."""
        await self._services.metadata_results.keep(self.user, self, answer)

    def _too_many(self) -> InvalidRequest:
        return InvalidRequest(
            "this session has %(count)s open operations",
            count=len(self.operations),
            code="too_many_operations",
            hint="close statements that are done with",
        )

    def add(self, operation: Operation) -> None:
        """Make an operation reachable by its handle."""
        self.touched = time.monotonic()
        self.operations[operation.handle.guid] = operation
        self._services.sessions.note_operation(operation, self)

    def find(self, handle: Handle) -> Operation | None:
        found = self.operations.get(handle.guid)
        return found if found and found.handle == handle else None

    async def cancel(self, operation: Operation, event: str = "cancel") -> None:
        """Stop an operation, and what the engine does for it, also when that makes rows
        as they are fetched. Idempotent; waits for no engine."""
        has_result = operation.state is OperationState.FINISHED
        if not operation.stop(event):
            return
        if operation.waits and operation.runner:
            operation.runner.cancel()
        self._let_go(operation, is_reading=has_result)

    async def fetch(
        self, operation: Operation, orientation: Orientation, count: int
    ) -> FetchedBatch:
        """Return the next rows of a finished statement, or the first ones.

        A revoke frees the result (AccessDenied). While no row was handed out, the
        death of its engine, or the end of that one's memory, is made good by running
        the statement again, once.
        """
        is_again = orientation is Orientation.FIRST
        try:
            await self._engine.require_rights(operation, is_again=is_again)
        except AccessDenied:
            await self.free(operation)
            raise
        if is_again and operation.run:
            operation.run.is_whole = False  # the engine may have to make it again
        while True:
            try:
                return await self._read(operation, orientation, count)
            except (EngineUnavailable, EngineRefused) as error:
                if not self._is_lost(operation, error) or operation.rows:
                    raise
            await self._run_again(operation)

    async def _read(
        self, operation: Operation, orientation: Orientation, count: int
    ) -> FetchedBatch:
        try:
            async with asyncio.timeout(operation.limit or None):
                return await _reader_of(operation).fetch(orientation, count)
        except TimeoutError:
            await self.cancel(operation, "time_out")
            raise _refusal(operation) from None

    def _is_lost(self, operation: Operation, error: SluiceError) -> bool:
        """Take note of how the newest run ended; True when another is to follow. Only
        statements that write nothing get here, so that it does no harm."""
        run = operation.run
        if run is None or operation.is_left:
            return False
        may_run_again = operation.may_run_again
        if isinstance(error, EngineUnavailable):
            run.end = RunEnd.ENGINE
            self._services.note_ended(self.user, operation)
        elif isinstance(error, EngineRefused) and ran_short(error) and may_run_again:
            run.end = RunEnd.MEMORY
        else:
            return False
        return may_run_again

    async def _run_again(self, operation: Operation) -> None:
        """Make a result again of which nothing was handed out."""
        operation.log_another_run()
        if operation.reader:
            operation.reader.close()
        until = operation.started + self._services.limits.statement_seconds
        place = self._services.place(self.user, operation)
        run = None
        try:
            async with asyncio.timeout(max(until - time.time(), 0)) as turn, place:
                turn.reschedule(None)  # from here on the engine's calls are not cut
                run = await self._engine.begin(operation)
                await self._engine.run(run, operation, until=until)
                self._keep_reads(operation)
        except TimeoutError:
            raise overdue() from None
        except EngineUnavailable as error:
            if run and run.engine.is_closed:  # the second one that ended under it
                self._is_lost(operation, error)
            raise

    async def free(self, operation: Operation) -> None:
        """Cancel if need be, free the engine's result, forget the operation."""
        if self.operations.pop(operation.handle.guid, None) is None:
            return
        self._services.sessions.forget_operation(operation)
        self._services.metadata_results.forget(operation)
        if operation.is_alive:
            await self.cancel(operation)
        if operation.kind is OperationType.EXECUTE_STATEMENT:
            self._services.close_statement(self.user)
            if operation.rows:
                self._audit.note_fetch(operation)
        operation.advance("close")
        self._services.reads.let_go(operation)
        self._let_go(operation, is_reading=True)
        if operation.reader:
            operation.reader.close()

    def _keep_reads(self, operation: Operation) -> None:
        if operation.state is not OperationState.CLOSED:
            self._services.keep_reads(self.user, operation)

    def _let_go(self, operation: Operation, *, is_reading: bool) -> None:
        """Let the engine drop what it has of it; what it still reads was for nothing.
        Idempotent."""
        run = operation.run
        if run is None or run.is_dropped:
            return
        if run.reader:
            run.reader.end(_refusal(operation))
            if is_reading:
                seconds = run.reader.seconds_under_way
                self._services.waste.add_fetch(self.user, seconds)
        self._engine.drop(run)

    async def close(self) -> None:
        """End everything of the session. Idempotent, never raises."""
        for timer in self._timers:
            timer.cancel()
        # an engine that does not answer is waited for once, not for each of them
        await asyncio.gather(*(self.free(one) for one in [*self.operations.values()]))
        await self._engine.close()

    async def end_overdue(self) -> None:
        """Stop statements that are older than one may be, and results still read from
        the lake: the files behind them are not kept for longer. The engine drops both,
        or a fetch would go on in it."""
        limit = self._services.limits.statement_seconds
        fault = Fault(
            Sentence(
                "the result was not read within %(limit)s s of its statement's"
                " start, and the query engine had no room to keep the rest; the"
                " lake keeps its files no longer",
                limit=f"{limit:.0f}",
            ),
            TIMED_OUT,
        )
        for operation in list(self.operations.values()):
            if time.time() - operation.started <= limit:
                continue
            if operation.is_alive:
                await self.cancel(operation, "time_out")
            elif await self._reads_the_lake(operation):
                operation.fault = fault
                operation.advance("time_out")
                self._let_go(operation, is_reading=True)

    async def _reads_the_lake(self, operation: Operation) -> bool:
        """Whether more rows of a result would come from the lake's files."""
        run = operation.run
        if run is None or run.is_whole or not run.handle or not run.reader:
            return False
        with contextlib.suppress(EngineRefused, EngineUnavailable, TimeoutError):
            async with asyncio.timeout(WHOLE_SECONDS):
                run.is_whole = (await run.engine.status(run.handle)).is_whole
        return operation.state is OperationState.FINISHED and not run.is_whole

    def close_idle(self) -> None:
        """Keep no connection to the engine that nothing uses."""
        self._engine.close_idle()

    async def _time_out(self, operation: Operation, seconds: float) -> None:
        await operation.wait(seconds)
        if operation.is_alive:
            await self.cancel(operation, "time_out")

    async def _run(self, operation: Operation, rule: StatementRule) -> None:
        try:
            await self._attempt(operation, rule)
        except asyncio.CancelledError:
            operation.stop("cancel")
        except SluiceError as error:
            operation.fail(self._fault(error))
        except Exception:
            log.exception("operation %s failed inside the gateway", operation.id)
            operation.fail(Fault("the gateway failed; see its log"))
        finally:
            if operation.state is OperationState.ERROR:
                self._let_go(operation, is_reading=False)
            self._audit.note_end(operation)
            self._keep_reads(operation)
            # an operation that stays open keeps no long text
            operation.statement = operation.statement[:LONGEST_AUDITED]

    async def _attempt(self, operation: Operation, rule: StatementRule) -> None:
        version = asyncio.ensure_future(self._audit.begin(operation))
        version.add_done_callback(lambda v: v.cancelled() or v.exception())
        if rule.kind is not Kind.QUERY:
            # what changes something has been written down before
            await asyncio.shield(version)
        if rule.kind is Kind.SET:
            require_settable(rule.target)
            self._engine.require_room_for(rule.target, operation.statement)
        if rule.kind is Kind.USE and rule.catalog.lower() in {"", *LAKE_CATALOGS}:
            await self._engine.require_active()
            await self.use(rule.target)
            operation.finish()
            return
        operation.advance("queue")
        if reason := self._services.why_waiting(self.user):
            operation.log_line(reason)
        changes = rule.target if rule.kind is Kind.SET else ""
        async with self._services.place(self.user, operation):
            await self._run_in_engine(operation, changes, version)

    async def _run_in_engine(
        self, operation: Operation, changes: str, version: asyncio.Future[int]
    ) -> None:
        """Run it, beside what is written down and read of it: nothing of it is shown
        before its audit line is durable, and under rights that were its user's when it
        was sent, or newer ones.

        When the engine ends under it, once more on the next one, and when the engine's
        memory ended under it, on the same one.
        """
        while True:
            run = await self._engine.begin(operation, version=version, changes=changes)
            error: SluiceError | None = None
            try:
                await self._engine.run(run, operation, changes=changes)
            except (EngineUnavailable, EngineRefused) as raised:
                if isinstance(raised, EngineUnavailable):
                    self._engine.give_up(run)
                if self._is_lost(operation, raised):
                    operation.log_another_run()
                    continue
                error = raised
            is_left = operation.is_left
            if not is_left and not await self._engine.has_rights_of(run, version):
                run.end = RunEnd.RIGHTS
                operation.log_another_run()
                self._engine.drop(run)
                continue
            if error:
                raise error
            operation.finish()
            return

    def _fault(self, error: SluiceError) -> Fault:
        if isinstance(error, EngineRefused):
            fault = clean(
                error.message,
                sql_state=error.sql_state,
                error_code=error.error_code,
                lake=self._services.lake_root,
            )
            return in_hive_format(fault) if self.protocol == V6 else fault
        return Fault(error.as_sentence, sql_state_of(error))


def _refuse_settings(rule: StatementRule, settings: Mapping[str, str] | None) -> None:
    """InvalidRequest for what would change more than its own statement."""
    if settings and rule.kind is not Kind.QUERY:
        raise InvalidRequest(
            "%(kind)s changes the session, which settings of one statement"
            " cannot go along with",
            settings=", ".join(settings),
            kind=rule.kind,
            code="setting_not_allowed",
            hint="send it without %(settings)s",
        )


def ran_short(error: EngineRefused) -> bool:
    """True when the engine's memory ended under a statement, whoever had taken it."""
    return (error.sql_state, error.error_code) == (TOO_LARGE, RAN_SHORT)


def _reader_of(operation: Operation) -> ResultReader:
    if operation.reader is None:
        raise InvalidRequest("the statement has no result set")
    return operation.reader


def _refusal(operation: Operation) -> EngineRefused:
    """What a fetch of an operation is told that was stopped."""
    fault = operation.fault or Fault("the statement is closed", GENERAL)
    return EngineRefused(fault.message, sql_state=fault.sql_state)


def sql_state_of(error: SluiceError) -> str:
    """Return the SQLSTATE of an error: the engine's own, or the gateway's."""
    if isinstance(error, EngineRefused) and error.sql_state:
        return error.sql_state
    if isinstance(error, EngineUnavailable | DatabaseAway):
        return ENGINE_AWAY
    if isinstance(error, AccessDenied):
        return DENIED
    if error.code.startswith("too_many_"):
        return NO_PLACE
    return _STATES.get(error.code, GENERAL)
