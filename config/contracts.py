"""An import contract as an allow-list, for import-linter: the pure islands.

The stock contracts forbid names; an island says what it may know, so a new dependency
is refused until it is allowed with a reason in `pyproject.toml`.
"""

from __future__ import annotations

import sys

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
            if not _is_below(module, self._names("islands")):
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
        islands = self._names("islands")
        if _is_below(imported, [*islands, *self._names("may_import")]):
            return True
        top = imported.partition(".")[0]
        if top not in sys.stdlib_module_names:
            # a package above an island, imported for its own `__init__` only
            return any(_matches(one, imported) for one in islands)
        return not _is_below(imported, self._names("forbidden_standard"))

    def _names(self, field: str) -> list[str]:
        """A field's value: on an instance import-linter puts a plain list there."""
        return list(self.__dict__.get(field) or [])

    def render_broken_contract(self, check: ContractCheck) -> None:
        found: list[tuple[str, str, str]] = check.metadata["breaches"]
        for module, imported, lines in found:
            output.print_error(f"{module} imports {imported} (line {lines})")


def _is_below(module: str, names: list[str]) -> bool:
    return any(_matches(module, name) for name in names)


def _matches(module: str, above: str) -> bool:
    """Whether `above` is the module or a package around it. A `*` in either stands for
    one name, so that one line allows the same module of each kind's folder."""
    names, wanted = module.split("."), above.split(".")
    return len(names) >= len(wanted) and all(
        "*" in pair or pair[0] == pair[1] for pair in zip(names, wanted, strict=False)
    )
