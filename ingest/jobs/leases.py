"""Taking a table: its leases in order, then the fences in the lake.

A lease says who should write, the fence makes it true. It must not know what the
job does with the table. What deaths of drivers mean stands here too: when to try again,
and which jobs get a driver of their own, with other leases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, Value
from django.db.models.functions import Concat, Now

from core.errors import TransientError
from core.jobs.moves import kinds_of
from core.leases import Held, next_token, outgrow, owner_of, take_lease
from core.models import Job, Lease
from core.retries import Backoff
from core.sentences import Sentence
from ingest.contract.table import FenceSpec
from ingest.jobs.kinds import DriverKind, TableHold, driver_kind
from ingest.lake.fence import Scope, fence_path, foreign_token, raise_fence, take_back
from ingest.lake.hudi.identity import shares_lock
from ingest.models import DriverIncarnation, Pipeline
from ingest.models.states import RETIRED

DEATHS_BEFORE_ISOLATION = 2
FIRST_SECONDS = 2.0
LONGEST_SECONDS = 300.0
# Deaths so soon after one another have one reason, and not the job each time: a machine
# without memory, a full disk, a restart in pieces.
GLITCH_SECONDS = 30.0


def wait_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 2, 4, 8 … at most 300."""
    return Backoff(FIRST_SECONDS, LONGEST_SECONDS).after(failures)


@dataclass(frozen=True, slots=True)
class Deaths:
    """The drivers that died under a job.

    seen     all of them: the pause before the next attempt grows with each
    counted  those within `GLITCH_SECONDS` of one another once: the job runs alone, and
             in the end fails, by these
    at       seconds since 1970 of the last one that was counted
    """

    seen: int = 0
    counted: int = 0
    at: float = 0.0

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Deaths:
        counted = int(payload.get("deaths", 0))
        seen = int(payload.get("deaths_seen", counted))
        return cls(seen, counted, float(payload.get("death_at", 0.0)))

    def another(self, now: float) -> Deaths:
        """A clock that went back is no reason to forget one."""
        is_glitch = self.counted > 0 and 0 <= now - self.at < GLITCH_SECONDS
        if is_glitch:
            return Deaths(self.seen + 1, self.counted, self.at)
        return Deaths(self.seen + 1, self.counted + 1, now)

    def to_payload(self) -> dict[str, Any]:
        if not self.seen:
            return {}
        return {
            "deaths": self.counted,
            "deaths_seen": self.seen,
            "death_at": self.at,
        }


def is_isolated(job: Job, pipeline: Pipeline) -> bool:
    return (
        job.payload.get("deaths", 0) >= DEATHS_BEFORE_ISOLATION
        or bool(job.payload.get("driver"))
        or bool(pipeline.alone_reason)
    )


def scopes_of(kind: DriverKind, pipeline: Pipeline) -> tuple[Scope, ...]:
    """Of a job in a driver of its own. Such drivers share no lock in memory: they take
    the whole table, unless it has a lock that all of them know."""
    lake = pipeline.lake_table
    is_shared = lake is not None and shares_lock(lake.identity)
    return kind.scopes if is_shared else ("write", "service")


def use_dedicated_driver(table_id: int, why: str) -> None:
    """From now on the table's jobs get processes of their own: what ends those ends
    nothing of other tables."""
    synced = Pipeline.objects.filter(lake_table=table_id).exclude(state=RETIRED)
    synced.filter(alone_reason="").update(alone_reason=why)


WRITE: Scope = "write"
SERVICE: Scope = "service"
_FOR = {WRITE: Sentence("writes"), SERVICE: Sentence("table services")}


def lease_name(table_id: int, scope: Scope) -> str:
    return f"table:{table_id}:{scope}"


def hold_table(
    job: Job, pipeline: Pipeline, *, takes_back: bool = False
) -> TableHold | None:
    """Take the table for the job's next attempt; None when a lease is not free, which
    the row then has as its reason. takes_back: as for `take_table`."""
    kind = driver_kind(job.kind)
    is_alone = is_isolated(job, pipeline)
    scopes = scopes_of(kind, pipeline) if is_alone else kind.scopes
    with transaction.atomic():
        fences = take_table(
            int(job.payload["table"]),
            scopes,
            owner=owner_of(job.pk, job.attempts + 1),
            takes_back=takes_back,
        )
        # one lease without the other would keep others out, and do nothing
        transaction.set_rollback(fences is None)
    if fences is None:
        Job.objects.filter(pk=job.pk).update(reason="waiting for the table's lease")
        return None
    return TableHold(fences[scopes.index(kind.scopes[0])], scopes, is_alone)


def take_table(
    table_id: int,
    scopes: Sequence[Scope],
    *,
    owner: str,
    takes_back: bool = False,
) -> list[FenceSpec] | None:
    """Fences raised to our tokens, one per scope; None when a lease is not free.

    `scopes` come in the order write, service, which everybody keeps. The caller
    rolls back what was taken before another one was refused. TransientError
    `lock_taken` when something stands in a fence that no lease gave out, unless the
    caller `takes_back`.
    """
    fences = []
    for scope in scopes:
        held = take_lease(
            lease_name(table_id, scope),
            owner=owner,
            seconds=settings.SLUICE_LEASE_SECONDS,
        )
        if held is None:
            return None
        fences.append(_enter(table_id, scope, held, takes_back=takes_back))
    return fences


def _enter(table_id: int, scope: Scope, held: Held, *, takes_back: bool) -> FenceSpec:
    path = fence_path(settings.SLUICE_LAKE_URI, table_id, scope)
    stranger = foreign_token(path, upto=held.token)
    if stranger and not takes_back:
        raise TransientError(
            "the table's lock for %(scope)s is taken: %(owner)s stands in"
            " %(uri)s, and no lease gave it out",
            scope=_FOR[scope],
            owner=stranger,
            uri=path.uri,
            code="lock_taken",
            hint="after a restore of the database run manage.py rebuild; else stop"
            " the program that writes there and roll the table back, which takes its"
            " lock back",
        )
    if stranger:
        held = outgrow(held, take_back(path, held.token))
    else:
        raise_fence(path, held.token)
    return FenceSpec(path=path.uri, token=held.token)


def win_back(table_id: int, scope: Scope, *, must: bool) -> bool:
    """The fence stands at a token that this database gives out next, and no lease of
    the table is held: after a restore of the database. Nothing is done where the fence
    is behind the lease, unless it `must`; whether something was done.

    Fence first: whoever dies between leaves a fence that is above the lease, and that
    is won back again.
    """
    name = lease_name(table_id, scope)
    path = fence_path(settings.SLUICE_LAKE_URI, table_id, scope)
    token = Lease.objects.filter(name=name).values_list("token", flat=True).first() or 0
    if not must and not foreign_token(path, upto=token):
        return False
    mine = take_back(path, token)
    if mine == token:
        # its owner's, who is shut out
        mine = take_back(path, token + 1)
    Lease.objects.update_or_create(
        name=name, defaults={"token": mine, "owner": "", "expires_at": None}
    )
    return True


def is_held(*, but: Collection[str] = ()) -> Q:
    """Of jobs: somebody has one of the leases that the kind of the job needs. but:
    owners who do not count."""
    held = Q()
    for scope in (WRITE, SERVICE):
        kinds = [each.name for each in kinds_of(DriverKind) if scope in each.scopes]
        # as `lease_name` says it
        name = Concat(Value("table:"), OuterRef("subject_id"), Value(f":{scope}"))
        leases = Lease.objects.filter(name=name, expires_at__gt=Now())
        taken = leases.exclude(owner__in=["", *but])
        held |= Q(kind__in=kinds) & Q(Exists(taken))
    return held


def renew(owners: Iterable[str]) -> None:
    """All leases of these owners, in one statement. One that ended while the database
    was away and that nobody took since is theirs: whoever judges an owner to be gone
    takes its name off."""
    Lease.objects.filter(owner__in=list(owners)).update(
        expires_at=Now() + timedelta(seconds=settings.SLUICE_LEASE_SECONDS)
    )


# ---------------------------------------------------------------------- sessions

_SESSION = "apply:"


def session_owner(stream: str, incarnation: UUID) -> str:
    """Return the owner of the leases of a session that applies a stream without end."""
    return f"{_SESSION}{stream}:{incarnation}"


def take_for_session(table_id: int, owner: str) -> FenceSpec | None:
    """The table's lease for writes, with its fence raised; None when it is not free."""
    with transaction.atomic():
        fences = take_table(table_id, (WRITE,), owner=owner)
    return fences[0] if fences else None


def held_by_session(owner: str) -> dict[int, FenceSpec]:
    """By table id."""
    rows = Lease.objects.filter(owner=owner, name__endswith=f":{WRITE}")
    found = {}
    for name, token in rows.values_list("name", "token"):
        table_id = int(name.split(":")[1])
        path = fence_path(settings.SLUICE_LAKE_URI, table_id, WRITE)
        found[table_id] = FenceSpec(path=path.uri, token=token)
    return found


def release_tables(owner: str, table_ids: Iterable[int]) -> None:
    names = [lease_name(table_id, WRITE) for table_id in table_ids]
    Lease.objects.filter(owner=owner, name__in=names).update(owner="", expires_at=None)


def release_ended_sessions() -> None:
    """Give back what sessions held whose driver is known to have ended."""
    rows = Lease.objects.filter(owner__startswith=_SESSION)
    owners = set(rows.values_list("owner", flat=True))
    living = DriverIncarnation.objects.filter(ended_at=None)
    alive = {str(pk) for pk in living.values_list("pk", flat=True)}
    ended = [owner for owner in owners if owner.rpartition(":")[2] not in alive]
    Lease.objects.filter(owner__in=ended).update(owner="", expires_at=None)


def fence_off_writers(table_id: int, scopes: Sequence[Scope]) -> None:
    """Raise the fences without an owner: whoever wrote until now cannot commit."""
    for scope in scopes:
        token = next_token(lease_name(table_id, scope))
        path = fence_path(settings.SLUICE_LAKE_URI, table_id, scope)
        # with somebody else's token there, none of ours can commit either
        if not foreign_token(path, upto=token):
            raise_fence(path, token)
