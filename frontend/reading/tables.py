"""A lake table's page: its feed, what may be done with it, commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.access.enforcement import decision_for
from catalog.access.policy import Principal, Privilege
from catalog.models import Table
from catalog.selectors.tables import securable_of
from frontend.actions import ACTIONS, Action
from ingest import samples
from ingest.feeds import feed_of
from ingest.lake.commits import Commit
from ingest.models import TableOnboarding
from ingest.policyrows import policy_of
from ingest.schedule import in_words

COMMITS = 20


@dataclass(frozen=True, slots=True)
class Feed:
    """The onboarding row that carries a table (or None), the actions offered, and
    when its rounds run, in words."""

    row: TableOnboarding | None
    actions: list[Action]
    when: str = ""


def feed_for(principal: Principal, table: Table) -> Feed:
    if table.kind != Table.LAKE:
        return Feed(None, [])
    row = feed_of(table.pk)
    held = {
        privilege
        for privilege in (Privilege.OPERATE, Privilege.MANAGE)
        if decision_for(principal, privilege, securable_of(table)).allowed
    }
    state = row.state if row else ""
    offered = [a for a in ACTIONS.values() if a.privilege in held and state in a.states]
    has_rounds = row is not None and row.capture == "timestamp"
    when = in_words(policy_of(row).schedule) if row and has_rounds else ""
    return Feed(row, offered, when)


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One commit as a line of the list."""

    instant: str
    at: datetime | None
    what: str
    rows: int
    epochs: str
    position: str


def commits_of(table: Table) -> list[CommitRow]:
    """The newest commits on the lake's own timeline; [] before the first."""
    page = samples.commits_of(table, size=COMMITS)
    return [_commit_row(commit) for commit in page.commits]


def _commit_row(commit: Commit) -> CommitRow:
    position = commit.position
    epochs = ""
    if position is not None:
        first, last = position.epoch_from, position.epoch_to
        epochs = str(last) if first == last else f"{first} to {last}"
    return CommitRow(
        instant=commit.instant.asked,
        at=_at(commit.instant.completed or commit.instant.asked),
        what=commit.operation.replace("_", " ").lower(),
        rows=commit.rows_written,
        epochs=epochs,
        position=position.end if position else "",
    )


def _at(instant: str) -> datetime | None:
    """Hudi's 17 digits (UTC) as a time."""
    try:
        return datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
