"""Copies that tools fill beside followed tables, kept in their identities, so that the
stream has them: see `ingest.sources.mariadb.log.swaps`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ingest.contract.following import Replaced
from ingest.contract.table import TableSpec
from ingest.sources.mariadb.log.binlog import Statement
from ingest.sources.mariadb.log.columns import Identity
from ingest.sources.mariadb.log.control import Control
from ingest.sources.mariadb.log.statements import Effect, Name, definition_of
from ingest.sources.mariadb.log.swaps import Shadow, shadow_behind


@dataclass(slots=True)
class Shadows:
    control: Control
    _tables: Mapping[Name, TableSpec] = field(default_factory=dict)
    _identities: dict[int, str] = field(default_factory=dict)
    _known: dict[Name, Shadow] = field(default_factory=dict)

    def recall(
        self, tables: Mapping[Name, TableSpec], identities: dict[int, str]
    ) -> dict[int, Replaced]:
        """From here on these are followed. Returned are those whose place others
        took."""
        self._tables, self._identities = tables, identities
        found = {
            name: Identity.decode(identities[table.table_id])
            for name, table in tables.items()
            if table.table_id in identities
        }
        self._known = {name: i.shadow for name, i in found.items() if i.shadow}
        return {
            tables[name].table_id: identity.replaced
            for name, identity in found.items()
            if identity.replaced
        }

    def of(self, name: Name) -> Shadow | None:
        return self._known.get(name)

    def taken(self, name: Name) -> Shadow:
        """It takes the table's place, or the table is given up."""
        return self._known.pop(name)

    def note(self, name: Name, statement: Statement, effect: Effect) -> None:
        """A statement that is no swap."""

        def is_copy() -> bool:
            made = definition_of(statement.text, statement.quoting)
            return made == definition_of(self.control.definition(self._tables[name]))

        shadow = shadow_behind(self._known.get(name), name, effect, is_copy=is_copy)
        self._keep(name, shadow)

    def note_filled(self, other: Name) -> None:
        """Rows of a table are in the log."""
        for name, shadow in [*self._known.items()]:
            if (name[0], shadow.name) == other:
                self._keep(name, replace(shadow, is_filled=True))

    def _keep(self, name: Name, shadow: Shadow | None) -> None:
        table_id = self._tables[name].table_id
        known = self._identities.get(table_id)
        if known is None or shadow == self._known.get(name):
            return
        identity = replace(Identity.decode(known), shadow=shadow)
        self._identities[table_id] = identity.encode()
        self._known.pop(name, None)
        if shadow:
            self._known[name] = shadow
