"""What a message says: JSON for machines, a subject and a text for people.

The JSON is kept with its delivery, so that each attempt sends the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.json_values import iso
from ingest.alerts.rules import CLOSED, OPENED, RECOVERED, SEVERITY, TEST
from ingest.models.alerts import SOURCE_KINDS, Alert

Body = Mapping[str, Any]
# of a kind of alert while it is open, and once it has ended
WORDS = {
    "failed": ("failed", "had failed"),
    "late": ("is late", "was late"),
    "stalled": ("has a stalled job", "had a job that stood still"),
    "stuck": ("is stuck or broken", "was stuck or broken"),
    "schema_change": ("changed at its source", "had changed at its source"),
    "capture": ("has trouble with its log capture", "had trouble with log capture"),
    "verification_mismatch": ("differs from its source", "differed from its source"),
}
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
        "closed_at": iso(alert.closed_at),
        "closed_because": alert.closed_because or None,
        "closed_reason": alert.closed_reason,
        "acknowledged_at": iso(alert.acknowledged_at),
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
    return {"event": event, "alert": alert_body(alert, base_url=base_url)}


def test_body(target: str, actor: str) -> dict[str, Any]:
    """A message that says only that messages arrive."""
    said = f"{actor} asked Sluice for a test of the alert target '{target}'."
    return {"event": TEST, "alert": None, "message": said}


def subject(bodies: Sequence[Body]) -> str:
    first = headline(bodies[0])
    more = f" (and {len(bodies) - 1} more)" if len(bodies) > 1 else ""
    room = LONGEST_SUBJECT - len(more)
    # a name of a table may hold anything; one line of printable text is left of it
    plain = "".join(c if c.isprintable() else " " for c in first)
    return f"Sluice: {plain[:room]}{more}"


def headline(body: Body) -> str:
    alert = body["alert"]
    if alert is None:
        return "test message"
    words, past = WORDS[alert["kind"]]
    if body["event"] == RECOVERED:
        return f"Resolved: {alert['name']} (it {past})"
    if body["event"] == CLOSED:
        return f"{alert['name']}: alert closed (it {past})"
    return f"{alert['name']} {words}"


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
        lines.append(f"Next step: {alert['hint']}")
    if alert.get("owner"):
        lines.append(f"Owner: {alert['owner']}")
    if body["event"] != OPENED:
        lines.append(f"Since {alert['closed_at']}: {alert['closed_reason']}")
    lines.append(f"First seen {alert['first_seen_at']}, {alert['count']} time(s).")
    return lines
