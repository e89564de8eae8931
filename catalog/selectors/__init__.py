"""Look-ups of the catalog, filtered by what the caller may see, in few statements.

`<noun>_for(principal)` for people, `lake_*` for the gateway. Never loads a list to
filter it in Python.
"""

from __future__ import annotations

from catalog.selectors.contents import (
    job_without_contents,
    require_log,
    shows_log,
    without_contents,
)
from catalog.selectors.facts import (
    TableFacts,
    facts_at,
    facts_by_ids,
    facts_for,
    facts_named,
)
from catalog.selectors.history import (
    SchemaStep,
    schema_steps,
    schema_versions,
)
from catalog.selectors.lake import (
    LakeColumn,
    LakeLocation,
    LakeTable,
    lake_columns_of,
    lake_databases_matching,
    lake_table_location,
    lake_tables_matching,
)
from catalog.selectors.listing import ByName, Found, Ordered
from catalog.selectors.lookups import place_of, tables_by_ids
from catalog.selectors.paging import Page, Window, keyset_page, keyset_window
from catalog.selectors.search import Hit, Hits, search_tables
from catalog.selectors.tables import (
    TableFilter,
    database_for,
    databases_for,
    datasource_for,
    datasources_for,
    table_at,
    table_for,
    table_named,
    tables_for,
)

__all__ = [
    "ByName",
    "Found",
    "Hit",
    "Hits",
    "LakeColumn",
    "LakeLocation",
    "LakeTable",
    "Ordered",
    "Page",
    "SchemaStep",
    "TableFacts",
    "TableFilter",
    "Window",
    "database_for",
    "databases_for",
    "datasource_for",
    "datasources_for",
    "facts_at",
    "facts_by_ids",
    "facts_for",
    "facts_named",
    "job_without_contents",
    "keyset_page",
    "keyset_window",
    "lake_columns_of",
    "lake_databases_matching",
    "lake_table_location",
    "lake_tables_matching",
    "place_of",
    "require_log",
    "schema_steps",
    "schema_versions",
    "search_tables",
    "shows_log",
    "table_at",
    "table_for",
    "table_named",
    "tables_by_ids",
    "tables_for",
    "without_contents",
]
