"""From the document to the configuration, in one transaction: all of it or nothing.

Loads are never started: tables arrive PROPOSED, or wait for a discovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from django.db import transaction

from config.config_export.configuration import items_of_configuration
from config.config_export.diff import Change, compare
from config.config_export.document import (
    DATASOURCE,
    GRANT,
    PATTERN,
    POLICY,
    RULE,
    TABLE,
    TARGET,
    USER,
    Document,
)
from config.config_export.located import located
from config.config_export.onboardings import expanded, onboard, update_table
from config.config_export.people import apply_grant, apply_rule, apply_user
from config.config_export.sources import apply_datasource, apply_policy, normal
from config.config_export.targets import apply_target
from core.context import working_for
from core.errors import InvalidRequest

ACTOR = "manage.py"
STILL = frozenset({"unchanged", "extra"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """notes  what the administrator has to do next, in sentences"""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return any(change.action != "unchanged" for change in self.changes)


def import_document(
    document: Document, *, environment: Mapping[str, str], is_dry: bool
) -> Outcome:
    """Bring the configuration to what the document states; a dry run takes it all back.

    InvalidRequest with pointers for what cannot be done; then nothing was done.
    """
    with working_for(actor=ACTOR, door="cli"), transaction.atomic():
        outcome = _Import(document, environment, is_dry=is_dry).run()
        if is_dry:
            transaction.set_rollback(True)
    return outcome


class _Import:
    """One import: users and sources first, for what follows names them."""

    def __init__(
        self, document: Document, environment: Mapping[str, str], *, is_dry: bool
    ) -> None:
        have = items_of_configuration()
        self.environment = environment
        self.is_dry = is_dry
        wanted = replace(document, items=tuple(map(normal, document.items)))
        wanted = replace(wanted, items=expanded(wanted.items, have))
        self.changes = compare(have, wanted)
        self.done: list[Change] = []
        self.notes: list[str] = []

    def run(self) -> Outcome:
        for kind, bring in ((USER, apply_user), (DATASOURCE, apply_datasource)):
            for change in self._of(kind):
                with located(change.item):
                    done = bring(change, self._password(change), self.notes)
                self.done.append(done)
        self._apply(POLICY, apply_policy)
        self._tables()
        # what keeps back comes before what gives
        self._apply(RULE, apply_rule)
        self._apply(GRANT, apply_grant)
        self._apply(TARGET, lambda change: apply_target(change, self._variable))
        return Outcome(tuple(self.done), tuple(self.notes))

    def _of(self, *kinds: str) -> list[Change]:
        return [change for change in self.changes if change.item.kind in kinds]

    def _apply(self, kind: str, bring: Callable[[Change], Change]) -> None:
        for change in self._of(kind):
            with located(change.item):
                is_still = change.action in STILL
                self.done.append(change if is_still else bring(change))

    def _tables(self) -> None:
        new = []
        for change in self._of(TABLE, PATTERN):
            if change.action == "create":
                new.append(change)
            elif change.action in STILL:
                self.done.append(change)
            else:
                with located(change.item):
                    self.done += update_table(change, new)
        self.done += onboard(new, self.notes, is_dry=self.is_dry)

    def _password(self, change: Change) -> str | None:
        """From the variable that the file names; None when it names none."""
        name = change.item.secret_env
        return self._variable(name, "/password_env") if name else None

    def _variable(self, name: str, pointer: str) -> str:
        """What the file leaves to the environment."""
        if not (found := self.environment.get(name)):
            raise InvalidRequest(
                f"the environment has no variable {name}",
                code="no_password",
                hint=f"export {name}=… before the import, or leave {pointer[1:]} away",
                facts={"errors": [{"pointer": pointer, "detail": "not set"}]},
            )
        return found
