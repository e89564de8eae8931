"""The list of tables. What may be seen is decided by the catalog's selectors."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, OrderBy
from django.http import HttpResponse
from django.shortcuts import render

from catalog.access.enforcement import may_register
from catalog.access.grants import grants_of
from catalog.access.policy import Privilege, granting
from catalog.models import Table
from catalog.names import LAKE
from catalog.selectors.listing import ByName, Found, Ordered
from catalog.selectors.paging import Window
from catalog.selectors.tables import TableFilter, tables_for
from frontend.pages import NumberedPage, PageRequest, keyed_page, numbered_page, page
from frontend.views import table_bulk as bulk
from ingest.actions.registry import ACTIONS
from ingest.models.states import APPROVED, MOVING, PAUSED, REMOVING
from ingest.pipelines.table_status import UNDECIDED, in_state, standings

STATES = (
    "LIVE", "CATCHING_UP", "SNAPSHOTTING", "RESYNCING", "APPROVED", PAUSED, UNDECIDED,
    "NEEDS_RESYNC", "FAILED", "REMOVING", "RETIRED",
)  # fmt: skip
# A table of either has the status of the first.
ALIKE = frozenset({PAUSED, UNDECIDED})
BULK = [(name, ACTIONS[name].title) for name in bulk.BULK]
OPERATING = granting(Privilege.OPERATE)
CHANGING = MOVING | {APPROVED, REMOVING}
SORTS: dict[str, tuple[str | OrderBy, ...]] = {
    "name": ("name", "id"),
    "-commit": (F("last_commit_at").desc(nulls_last=True), "-id"),
    "lag": ("caught_up_at", "id"),
    "status": ("status", "name", "id"),
    "-rows": (F("estimated_rows").desc(nulls_last=True), "-id"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filter of the list as the URL carries it."""

    q: str
    where: str
    status: str
    sort: str
    tag: str = ""
    owner: str = ""

    @classmethod
    def of(cls, request: PageRequest) -> Wanted:
        get = request.GET.get
        sort = get("sort", "name")
        return cls(
            q=get("q", "").strip()[:300],
            where=get("where", LAKE),
            status=get("status", ""),
            sort=sort if sort in SORTS else "name",
            tag=get("tag", "").strip().lower()[:50],
            owner=get("owner", "").strip()[:160],
        )

    def page_of(self, request: PageRequest) -> NumberedPage | Window[Table]:
        kind = self.where if self.where in {Table.LAKE, Table.SOURCE} else ""
        wanted = TableFilter(
            kind=kind,
            status="" if self.status in ALIKE else self.status,
            q=self.q,
            tag=self.tag,
            owner=self.owner,
        )
        if self.q and self.sort == "name" and self.status not in ALIKE:
            return numbered_page(request, Found(request.principal, wanted))
        found = tables_for(request.principal, wanted)
        if self.status in ALIKE:
            found = in_state(found, self.status)
        if self.sort == "name":
            return keyed_page(request, ByName(found))
        return numbered_page(request, Ordered(found.order_by(*SORTS[self.sort])))


@page()
def table_list(request: PageRequest) -> HttpResponse:
    wanted = Wanted.of(request)
    found = wanted.page_of(request)
    held = {one.privilege for one in grants_of(request.principal)}
    context = {
        "wanted": wanted,
        "tables": found,
        "standings": standings(table.pk for table in found.items),
        "is_moving": any(table.status in CHANGING for table in found.items),
        "states": STATES,
        "is_filtered": bool(wanted.q or wanted.status or wanted.tag or wanted.owner),
        "can_add": may_register(request.principal) or Privilege.MANAGE in held,
        "bulk": BULK if request.principal.is_admin or held & OPERATING else (),
    }
    part = request.htmx and request.htmx.target == "table-list"
    template = "tables/rows.html" if part else "tables/list.html"
    return render(request, f"frontend/{template}", context)
