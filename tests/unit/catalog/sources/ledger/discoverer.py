"""How a ledger is tested and discovered: from values, without a server."""

from __future__ import annotations

from catalog.schema.types import Column, TableSchema
from catalog.sources.access import SourceAccess
from catalog.sources.port import DiscoveredTable, Discoverer, Overview, Page
from catalog.sources.steps import Outcome, Steps
from core.errors import SluiceError, TerminalError
from tests.unit.catalog.sources.ledger.types import lake_type

_COLUMNS = (
    ("entry", "id"),
    ("sum", "amount"),
    ("updated_at", "moment"),
    ("seal", "wax"),
)
ENTRIES = DiscoveredTable(
    database="book",
    name="entries",
    kind="table",
    schema=TableSchema(
        tuple(
            Column(
                source_name=name,
                name=name,
                source_type=text,
                type=lake_type(text),
                nullable=name != "entry",
                key=int(name == "entry"),
            )
            for name, text in _COLUMNS
        )
    ),
    estimated_rows=10,
    indexed=("updated_at",),
)


class LedgerReader:
    def __init__(self, access: SourceAccess) -> None:
        assert access.kind == "ledger"

    def __enter__(self) -> LedgerReader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def overview(self) -> Overview:
        return Overview(("book",), 1, sees_all_transactions=True)

    def page(self, after: tuple[str, str] | None, *, limit: int) -> Page:
        return Page((ENTRIES,), None)

    def table(self, database: str, name: str) -> DiscoveredTable | None:
        return ENTRIES if (database, name) == ("book", "entries") else None


class LedgerSteps(Steps):
    errors = (SluiceError,)

    def explained(self, error: Exception) -> SluiceError:
        return TerminalError(str(error))

    def resolve(self) -> Outcome:
        return Outcome("a ledger has no address", is_skipped=True)

    tcp = tls = login = version = privileges = resolve

    def sample(self) -> Outcome:
        return Outcome("book.entries was read")


DISCOVERER = Discoverer(reader=LedgerReader, steps=LedgerSteps)
