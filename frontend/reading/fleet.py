"""All lake tables in sight by their health, the worst first, as the page shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.access.policy import Principal
from core.sentences import with_sentences
from frontend.reading.health import TITLES
from frontend.reading.health_charts import TONES, tone_of
from ingest.maintenance.health_list import BANDS, FAIR, GOOD, HealthList
from ingest.models import TableHealth

WORDS = {
    "bad": format_lazy(_("below {most}"), most=FAIR),
    "fair": format_lazy(_("{least} to {most}"), least=FAIR, most=GOOD - 1),
    "good": format_lazy(_("{least} to {most}"), least=GOOD, most=100),
    "unseen": _("not checked yet"),
}


@dataclass(frozen=True, slots=True)
class BandShown:
    """`tone` is a CSS class."""

    name: str
    word: str
    tone: str


@dataclass(frozen=True, slots=True)
class Row:
    """A table: what costs most, and how much else does."""

    health: TableHealth
    tone: str
    title: str
    reason: str
    more: int


def wanted_from(principal: Principal, get: Callable[[str, str], str]) -> HealthList:
    """What the page's filter says; what is no choice counts as none."""
    band, code = get("band", ""), get("code", "")
    return HealthList(
        principal,
        q=get("q", "").strip()[:300],
        band=band if band in WORDS else "",
        code=code if code in TITLES else "",
    )


def bands_of(wanted: HealthList) -> list[tuple[BandShown, int]]:
    """How many tables each has, whatever is filtered by them."""
    counts = wanted.counts()
    return [
        (
            BandShown(band.name, str(WORDS[band.name]), TONES[band.name]),
            counts[band.name],
        )
        for band in BANDS
    ]


def row_of(health: TableHealth) -> Row:
    first = with_sentences(health.issues[0]) if health.issues else {}
    code = first.get("code", "")
    return Row(
        health,
        tone_of(health.score),
        gettext(TITLES[code]) if code in TITLES else "",
        first.get("reason", ""),
        max(0, len(health.issues) - 1),
    )
