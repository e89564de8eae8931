"""What a table action is: one value that REST, pages, `/config` and docs are made of.

`ingest.actions.registry` lists them. The names of a request's fields are the keyword
arguments of its `run` and `preview`, or the members of its `RepairWork`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from catalog.access.policy import Privilege
from core.sentences import Sentence
from ingest.contract.job import RepairWork
from ingest.models.states import (
    APPROVED,
    CATCHING_UP,
    FAILED,
    LIVE,
    NEEDS_RESYNC,
    PAUSED,
    REMOVING,
    RESUMABLE,
    RESYNCING,
    SNAPSHOTTING,
)

if TYPE_CHECKING:
    from catalog.models import Table
    from core.models import Job
    from ingest.maintenance.impact_on_many import Carried, Foreseen
    from ingest.maintenance.repair_previews import Preview
    from ingest.models import Pipeline
    from ingest.pipelines.removal import RemovalPreview

ON_ITS_WAY = frozenset({APPROVED, SNAPSHOTTING, CATCHING_UP, LIVE, RESYNCING})
QUERYABLE = frozenset({CATCHING_UP, LIVE, NEEDS_RESYNC, PAUSED, FAILED})
INSTANT = re.compile(r"(\d{17})?", re.ASCII)

Kind = Literal["flag", "whole", "text", "choice", "instant", "names"]


@dataclass(frozen=True, slots=True)
class Field:
    """A member of an action's request.

    help      what REST's document says of it; label: the page's, "" = not on the page
    choices   of a choice: value -> label of the page
    offered   of names: those that a page offers for this table
    is_dry_run       true asks for the preview instead of the run
    is_checked_later the service checks it, by an error code of its own
    proposal  what a page begins with; needs: counts on a page only beside this value
    changes_preview  a page asks for it before it shows what will happen
    part      a template of the page that shows it, with the fields that need it
    """

    name: str
    kind: Kind
    help: str = ""
    label: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    least: int | None = None
    most: int | None = None
    is_required: bool = False
    is_nullable: bool = False
    is_dry_run: bool = False
    is_checked_later: bool = False
    proposal: Callable[[Table], object] | None = None
    offered: Callable[[Table], tuple[str, ...]] | None = None
    needs: tuple[str, str] | None = None
    changes_preview: bool = False
    part: str = ""

    def from_form(self, text: str, *more: str) -> Any:
        """What a page's form says; None for nothing, or nothing that could be meant.
        more: of names, which may come several times."""
        if self.kind == "names":
            return tuple(name for name in (text, *more) if name) or None
        text = text.strip()
        if self.kind == "flag":
            return True if text else None
        if self.kind == "whole":
            is_number = text.isascii() and text.isdigit() and len(text) < 6
            return int(text) or None if is_number else None
        if self.kind == "instant":
            return text if INSTANT.fullmatch(text) and text else None
        if self.kind == "choice":
            return text if text in dict(self.choices) else None
        return text[:40] or None


@dataclass(frozen=True, slots=True)
class Request:
    """The members that an action takes; `name` is its component in OpenAPI."""

    name: str = "Empty"
    fields: tuple[Field, ...] = ()
    help: str = ""

    @property
    def is_previewable(self) -> bool:
        """Whether REST answers `"dry_run": true` with a preview."""
        return any(each.is_dry_run for each in self.fields)

    def takes_dry_run(self, given: dict[str, Any]) -> bool:
        """Whether the preview is asked for; `given` is left with what is passed on."""
        name = next((each.name for each in self.fields if each.is_dry_run), "")
        return bool(given.pop(name, False))

    def has(self, name: str) -> bool:
        return any(each.name == name for each in self.fields)

    def field(self, name: str) -> Field:
        return next(each for each in self.fields if each.name == name)


NO_REQUEST = Request()
DRY_RUN = Field("dry_run", "flag", "200 with what it would do", is_dry_run=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAction:
    """What users can request for a lake table.

    name      REST verb, address of its page, and how audit and health call it
    group     maintenance: works on the lake alone; sync: on how it is synced
    does, blocks, undo  sentences, read before the button is pressed; translated
    states    of the pipeline in which it is offered; the service decides, under a lock
    is_open   offered only where this is true of the pipeline
    effects   what will happen, line by line; () = `describe` or `preview` tells it
    describe  lines of its page, where they are not those of the preview
    preview   what it would do now; of a repair it is given the lake's facts
    preview_many   the same of many tables at once, by lake table
    run       starts it: a job, or the pipeline that it moved at once
    repair    of what a driver repairs: `ingest.maintenance.repairs` queues its job
    report    what the finished job did, with names of its report's facts; translated
    collection     where REST creates one, instead of a verb
    is_verb        False: a way to ask for another one's verb, for pages
    is_dangerous   asks to type the table's name. is_decision: offered where one waits
    is_care        offered on the health page whatever it says
    """

    name: str
    title: str
    icon: str
    does: str
    blocks: str
    undo: str
    group: Literal["sync", "maintenance"] = "maintenance"
    states: frozenset[str] = QUERYABLE
    is_open: Callable[[Pipeline], bool] | None = None
    privilege: Privilege = Privilege.OPERATE
    request: Request = NO_REQUEST
    effects: tuple[str, ...] = ()
    describe: Callable[[Table], Iterable[str]] | None = None
    preview: Callable[..., Preview | RemovalPreview] | None = None
    preview_many: Callable[[Sequence[Carried]], Mapping[int, Foreseen]] | None = None
    run: Callable[..., Job | Pipeline] | None = None
    repair: RepairWork | None = None
    report: str = ""
    collection: str = ""
    is_verb: bool = True
    is_dangerous: bool = False
    is_decision: bool = False
    is_care: bool = False

    @property
    def route(self) -> str:
        """Behind the table's address in REST."""
        return f"/{self.collection}" if self.collection else f":{self.name}"

    @property
    def is_correctable(self) -> bool:
        """Whether its page goes on, with other values, when a preview is refused."""
        asked = [each for each in self.request.fields if each.changes_preview]
        return any(each.kind != "flag" for each in asked)

    def is_offered_to(self, pipeline: Pipeline) -> bool:
        is_open = self.is_open is None or self.is_open(pipeline)
        return is_open and pipeline.state in self.states

    def work(self, given: Mapping[str, Any]) -> RepairWork:
        """What the driver is asked for; of repairs only."""
        assert self.repair is not None, f"{self.name} is no repair"
        return replace(self.repair, **given)

    def why_not(self, state: str) -> str:
        """What to do first, in a state in which it is not offered."""
        if self.states <= RESUMABLE:
            return Sentence("nothing is to be resumed")
        if state in RESUMABLE:
            return Sentence("resume it first")
        if state == NEEDS_RESYNC:
            return Sentence("resync it first")
        if state == REMOVING:
            return Sentence("nothing is repaired any more")
        return Sentence("ask when that has ended")
