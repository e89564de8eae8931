"""What all sessions of a gateway process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from core.errors import InvalidRequest
from gateway.engines.port import EnginePolicy
from gateway.engines.supply import EngineSupply
from gateway.fair import Caller, FairPlaces
from gateway.limits import GatewayLimits
from gateway.result_reader import ReadAheadRoom
from gateway.store import Store


@dataclass(slots=True)
class Services:
    """What sessions share: one each per gateway process. `policies` holds what was
    last pushed of each user."""

    store: Store
    supply: EngineSupply
    limits: GatewayLimits
    lake_root: str = ""
    slots: FairPlaces = field(init=False)
    room: ReadAheadRoom = field(init=False)
    texts: int = 0
    policies: dict[str, EnginePolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = FairPlaces(
            self.limits.statements_running,
            waiting=self.limits.statements_queued,
            waiting_each=self.limits.statements_queued_per_user,
        )
        self.room = ReadAheadRoom(
            self.limits.read_ahead_bytes, self.limits.read_ahead_batch_bytes
        )

    def caller(self, user: str) -> Caller:
        """Return as whom this user's statements wait for a place to run in."""
        return Caller(user, self.limits.statements_running_per_user)

    def hold_text(self, size: int) -> Callable[[], None]:
        """Take room for a statement's text; call what is returned to give it back."""
        if self.texts + size > self.limits.statement_texts:
            raise InvalidRequest(
                f"the statements that wait or run have {self.texts} characters",
                code="too_many_statements",
                hint="try again later, or send shorter statements",
            )
        self.texts += size

        def release() -> None:
            self.texts -= size

        return release
