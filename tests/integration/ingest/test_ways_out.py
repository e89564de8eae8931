"""Whatever the health of a table offers for unfinished work, its preview accepts."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest

from ingest.actions.registry import ACTIONS
from tests.doubles.launcher import write_instant
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.ingest.test_health import LATER, OLD, see, timeline_of
from tests.integration.ingest.test_resize import signed_in

pytestmark = pytest.mark.django_db

PLAN = {
    "type": "record",
    "name": "Plan",
    "fields": [
        {"name": "operations", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "savepointToRestoreTimestamp", "type": ["null", "string"]},
    ],
}


def avro(**record: Any) -> bytes:
    file = io.BytesIO()
    nothing = {"operations": None, "savepointToRestoreTimestamp": None}
    fastavro.writer(file, PLAN, [nothing | record])
    return file.getvalue()


@pytest.mark.parametrize(
    ("names", "offered"),
    [
        (["deltacommit.inflight"], ("write_stuck", "rollback", LATER)),
        (["replacecommit.requested"], ("write_stuck", "rollback", LATER)),
        (
            ["compaction.requested", "compaction.inflight"],
            ("compaction_stuck", "rollback", LATER),
        ),
        (["compaction.requested"], ("compaction_waits", "compact", LATER)),
        (
            ["compaction.inflight"],
            ("plan_unreadable", "unschedule-compaction", LATER),
        ),
        (["rollback.requested"], ("write_stuck", "rollback", None)),
        (["clean.requested", "clean.inflight"], ("write_stuck", "clean", None)),
        (["restore.requested"], ("write_stuck", "restore", OLD)),
        # its request is damaged: it does not tell where it goes back to
        (["restore.inflight", "restore.requested"], ("write_stuck", None, None)),
        (["indexing.requested"], ("write_stuck", None, None)),
    ],
)
def test_what_is_offered_is_accepted(
    world, admin, django_user_model, names: list[str], offered: tuple[str, Any, Any]
) -> None:
    world.live("orders")
    table, timeline = world.lake("orders").pk, timeline_of(world)
    write_instant(Path(world.lake("orders").path), OLD, "deltacommit", {})
    (timeline / f"{OLD}_{LATER}.savepoint").touch()
    for name in names:
        plan = avro(savepointToRestoreTimestamp=OLD)
        is_plan = name.endswith(".requested") and offered[1]
        (timeline / f"{LATER}.{name}").write_bytes(plan if is_plan else b"no avro")
    see(world)
    (issue,) = admin("GET", f"tables/{table}/health").json()["issues"]
    code, repair, instant = offered
    assert (issue["code"], issue["repair"], issue["instant"]) == offered
    client = signed_in(django_user_model)
    page = client.get(f"/tables/{table}/health").content.decode()
    pending = page.partition('id="pending-title"')[2].partition("</section>")[0]
    links = [html.unescape(a) for a in re.findall(r'href="([^"]+)"', pending)]
    assert bool(links) == bool(repair)
    for link in links:
        assert client.get(link).status_code == 200, link
    if repair is None:
        reply = admin("POST", f"tables/{table}:rollback", {"instant": LATER})
        assert "no repair" in problem(reply, 400, "nothing_to_do")["hint"]
        return
    body = {"dry_run": True} | ({"instant": instant} if instant else {})
    if repair == "compact":
        body.pop("instant")
    dry = admin("POST", f"tables/{table}:{repair}", body)
    assert dry.status_code == 200, (code, dry.content)
    if instant != LATER:
        # who names the instant itself is told the way, not sent in a circle
        reply = admin("POST", f"tables/{table}:rollback", {"instant": LATER})
        title = ACTIONS[repair].title
        assert f"'{title}'" in problem(reply, 400, "nothing_to_do")["hint"]
