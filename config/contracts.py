"""An import contract as an allow-list, for import-linter: the pure islands.

The stock contracts forbid names; an island says what it may know, so a new dependency
is refused until somebody allows it with a reason in `pyproject.toml`.
"""

from __future__ import annotations

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class IslandContract(Contract):
    """Modules below `islands` import each other, `may_import`, the standard library."""

    islands = fields.ListField(subfield=fields.StringField())
    may_import = fields.ListField(subfield=fields.StringField())
    forbidden_standard = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001
        """Broken when any module of an island imports anything beyond the list."""
        breaches = []
        for module in sorted(graph.modules):
            if not _is_below(module, self.islands):
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                if not self._is_allowed(imported):
                    details = graph.get_import_details(
                        importer=module, imported=imported
                    )
                    lines = [str(one["line_number"]) for one in details]
                    breaches.append((module, imported, ", ".join(lines)))
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    def _is_allowed(self, imported: str) -> bool:
        if _is_below(imported, [*self.islands, *self.may_import]):
            return True
        top = imported.partition(".")[0]
        if top not in sys.stdlib_module_names:
            # a package above an island, imported for its own `__init__` only
            return any(one.startswith(f"{imported}.") for one in self.islands)
        return not _is_below(imported, self.forbidden_standard or [])

    def render_broken_contract(self, check: ContractCheck) -> None:
        found: list[tuple[str, str, str]] = check.metadata["breaches"]
        for module, imported, lines in found:
            output.print_error(f"{module} imports {imported} (line {lines})")


def _is_below(module: str, names: Any) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)
