"""What a message says: JSON for machines, a subject and a text for people.

The JSON is kept with its delivery in English, with what its sentences were made of.
What is sent is in the active language, which is the target's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.json_values import iso
from core.sentences import Sentence, origins_in, with_sentences
from core.translation import translated
from ingest.alerts.rules import CLOSED, OPENED, RECOVERED, SEVERITY, TEST
from ingest.models.alerts import SOURCE_KINDS, Alert

Body = Mapping[str, Any]
# of a kind of alert as it opens, and once it has ended
WORDS = {
    "failed": (Sentence("%(name)s failed"), Sentence("it had failed")),
    "late": (Sentence("%(name)s is late"), Sentence("it was late")),
    "stalled": (
        Sentence("%(name)s has a stalled job"),
        Sentence("it had a job that stood still"),
    ),
    "stuck": (
        Sentence("%(name)s is stuck or broken"),
        Sentence("it was stuck or broken"),
    ),
    "schema_change": (
        Sentence("%(name)s changed at its source"),
        Sentence("it had changed at its source"),
    ),
    "capture": (
        Sentence("%(name)s has trouble with its log capture"),
        Sentence("it had trouble with log capture"),
    ),
    "verification_mismatch": (
        Sentence("%(name)s differs from its source"),
        Sentence("it differed from its source"),
    ),
}
# members of an alert that are sentences
_SAID = ("message", "hint", "closed_reason")
LONGEST_SUBJECT = 180


def alert_body(alert: Alert, *, base_url: str = "") -> dict[str, Any]:
    """An alert as REST and webhooks show it."""
    return {
        "id": alert.pk,
        "kind": alert.kind,
        "severity": SEVERITY[alert.kind],
        "state": "open" if alert.closed_at is None else "closed",
        "table": alert.table_id,
        "datasource": alert.name if alert.kind in SOURCE_KINDS else None,
        "name": alert.on,
        "owner": alert.owner,
        "message": alert.message,
        "code": alert.code,
        "hint": alert.hint,
        "repair": alert.repair or None,
        "instant": alert.instant or None,
        "job": str(alert.job) if alert.job else None,
        "count": alert.count,
        "first_seen_at": iso(alert.first_seen_at),
        "last_seen_at": iso(alert.last_seen_at),
        "closed_at": alert.closed_at and iso(alert.closed_at),
        "closed_because": alert.closed_because or None,
        "closed_reason": alert.closed_reason,
        "acknowledged_at": alert.acknowledged_at and iso(alert.acknowledged_at),
        "acknowledged_by": alert.acknowledged_by or None,
        "url": f"{base_url}{path_of(alert)}",
    }


def path_of(alert: Alert) -> str:
    """The page on which a person can act on it."""
    if alert.kind in SOURCE_KINDS:
        return f"/sources/{alert.name}/pipeline"
    if alert.table_id is None:
        return "/alerts"
    if alert.kind == "stalled" and alert.job:
        return f"/jobs/{alert.job}"
    is_health = alert.kind == "stuck"
    return f"/tables/{alert.table_id}{'/health' if is_health else ''}"


def event_body(alert: Alert, event: str, *, base_url: str) -> dict[str, Any]:
    return _kept({"event": event, "alert": alert_body(alert, base_url=base_url)})


def test_body(target: str, actor: str) -> dict[str, Any]:
    """A message that says only that messages arrive."""
    said = Sentence(
        "%(actor)s asked Sluice for a test of the alert target '%(target)s'.",
        actor=actor,
        target=target,
    )
    return _kept({"event": TEST, "alert": None, "message": said})


def _kept(body: Body) -> dict[str, Any]:
    return {**body, "sentences": origins_in(body)}


def told(stored: Body) -> dict[str, Any]:
    """A body as it is sent: what is said in it is in the active language."""
    body = with_sentences(stored)
    alert = body["alert"]
    if alert is None:
        return {**body, "message": translated(body["message"])}
    said = {name: translated(alert[name]) for name in _SAID}
    return {**body, "alert": {**alert, **said}}


def subject(bodies: Sequence[Body]) -> str:
    more = len(bodies) - 1
    also = translated(Sentence(" (and %(count)s more)", count=more)) if more else ""
    room = LONGEST_SUBJECT - len(also)
    # a name of a table may hold anything; one line of printable text is left of it
    plain = "".join(c if c.isprintable() else " " for c in headline(bodies[0]))
    return f"Sluice: {plain[:room]}{also}"


def headline(body: Body) -> str:
    alert = body["alert"]
    if alert is None:
        return translated("test message")
    name = alert["name"]
    opened, past = WORDS[alert["kind"]]
    if body["event"] == RECOVERED:
        return translated(
            Sentence("Resolved: %(name)s (%(past)s)", name=name, past=past)
        )
    if body["event"] == CLOSED:
        closed = Sentence("%(name)s: alert closed (%(past)s)", name=name, past=past)
        return translated(closed)
    return translated(Sentence(opened, name=name))


def text(bodies: Sequence[Body]) -> str:
    return "\n\n".join(map(_paragraph, bodies)) + "\n"


def _paragraph(body: Body) -> str:
    alert = body["alert"]
    if alert is None:
        return str(body["message"])
    return "\n".join([headline(body), *lines_of(body), alert["url"]])


def lines_of(body: Body) -> list[str]:
    """What stands below the headline."""
    alert = body["alert"]
    if alert is None:
        return [str(body["message"])]
    lines = [alert["message"]]
    if body["event"] == OPENED and alert["hint"]:
        lines.append(Sentence("Next step: %(hint)s", hint=alert["hint"]))
    if alert.get("owner"):
        lines.append(Sentence("Owner: %(owner)s", owner=alert["owner"]))
    if body["event"] != OPENED:
        since, why = _minute(alert["closed_at"]), alert["closed_reason"]
        lines.append(Sentence("Since %(since)s: %(why)s", since=since, why=why))
    first, count = _minute(alert["first_seen_at"]), alert["count"]
    lines.append(
        Sentence("First seen %(first)s, %(count)s time(s).", first=first, count=count)
    )
    return [translated(line) for line in lines]


def _minute(at: str) -> str:
    """`2026-01-01 00:00 UTC` of an ISO time."""
    return f"{at[:10]} {at[11:16]} UTC"
