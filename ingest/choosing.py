"""Choices for one table of a plan that is not approved yet: its plan is made anew.

The other tables of the request stay as they were shown.
"""

from __future__ import annotations

from django.db import transaction

from core.advance import advance
from core.errors import StaleState
from ingest import facts as reading
from ingest.circumstances import Circumstances
from ingest.models import TableOnboarding
from ingest.planning.facts import Capture, Choices
from ingest.planning.plan import TablePlan, plan_to_json
from ingest.planning.propose import propose_table
from ingest.states import PROPOSED


def choose_for(feed: TableOnboarding, choices: Choices, *, actor: str) -> TablePlan:
    """Propose again with these choices. StaleState once it is approved;
    InvalidRequest for choices that the table cannot have."""
    with transaction.atomic():
        row = (
            TableOnboarding.objects.select_for_update(of=("self",))
            .select_related("source_table__database__datasource", "onboarding")
            .get(pk=feed.pk)
        )
        if row.state != PROPOSED:
            raise StaleState(
                f"{row.source_table} is {row.state}: its plan is fixed",
                hint="remove the table and ask again",
            )
        plan = _plan(row, choices)
        advance(
            row,
            "propose",
            actor=actor,
            plan=plan_to_json(plan),
            status_reason=plan.blocked,
        )
    return plan


def _plan(row: TableOnboarding, choices: Choices) -> TablePlan:
    source = row.source_table.database.datasource
    capture: Capture = "snapshot" if row.capture == "snapshot" else "timestamp"
    (fact,) = reading.facts_of([row.source_table])
    (derived,) = reading.targets_of(
        source, [fact], target_database=row.onboarding.request.get("target_database")
    )
    # the name that was shown stays, unless another one is chosen
    own = (row.plan["database"], row.plan["name"])
    target = reading.renamed(derived, *own)
    if choices.lake and choices.lake != ".".join(own):
        (target,) = reading.pin_targets([derived], [choices.lake], [fact.source_name])
    database = row.source_table.database
    circumstances = Circumstances(source, capture)
    conditions = circumstances.under(circumstances.policy_of(database, row.policy))
    return propose_table(fact, choices, target, conditions)
