"""A source is tried before it is stored; what was typed is kept, the password sealed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.sessions.models import Session

from catalog.models import Datasource
from catalog.secrets import decrypt
from core.models import Job
from frontend.forms.sources import taken_apart
from frontend.reading.sources import stored_steps
from tests.integration.frontend.test_forms import SOURCE


@pytest.fixture
def server(source_pg):
    return SOURCE | {
        "host": source_pg.host,
        "port": str(source_pg.port),
        "database": "postgres",
        "username": source_pg.username,
        "password": source_pg.password,
    }


def test_a_test_that_fails_stores_nothing_and_says_which_step(world, browse):
    response = browse("root").post("/sources/new", {**SOURCE, "port": "1"})
    page = response.content.decode()
    assert response.status_code == 200, "the form itself is right"
    assert "nothing was saved" in page
    assert "What to do:" in page
    skipped = page.partition("not tried, because")[2].partition("</li>")[0]
    assert " ms" not in skipped, "what was not tried took no time"
    assert not Datasource.objects.filter(name="crm").exists()
    assert "PASSWORD-CANARY" not in page


def test_a_source_is_tested_and_saved_with_the_password_kept(world, browse, server):
    client = browse("root")
    wrong = {**server, "database": "nowhere", "then": "test"}
    page = client.post("/sources/new", wrong).content.decode()
    assert "nothing was saved" in page
    assert "is kept, sealed" in page
    assert 'value="nowhere"' in page
    assert server["password"] not in page
    session = Session.objects.get(pk=client.session.session_key)
    assert server["password"] not in str(session.get_decoded())
    again = {**server, "password": "", "then": "test"}
    # discovery goes on at once, and from there to the choice of tables
    assert client.post("/sources/new", again)["Location"] == "/sources/crm?then=pick"
    job = Job.objects.get(kind="discover", subject="crm")
    here = client.get("/sources/crm?then=pick").content.decode()
    assert "/sources/crm/work?then=pick" in here
    Job.objects.filter(pk=job.pk).update(state="SUCCEEDED")
    work = client.get("/sources/crm/work?then=pick")
    assert work.headers["HX-Redirect"] == "/sources/crm/onboard"
    assert client.get("/sources/crm/work").headers["HX-Refresh"] == "true"
    made = Datasource.objects.get(name="crm")
    assert made.test_result["ok"]
    assert decrypt(made.secret) == server["password"]
    assert "sealed-passwords" not in str(client.session.get("sealed-passwords", ""))
    assert client.session["sealed-passwords"] == {}


def test_another_kind_keeps_what_was_typed(world, browse):
    client = browse("root")
    typed = {**SOURCE, "kind": "postgresql", "port": "5432", "host": "db.example"}
    switched = client.post("/sources/new", {**typed, "other_kind": "mariadb"})
    page = switched.content.decode()
    assert switched.status_code == 200
    assert 'name="kind" value="mariadb"' in page
    for value in ("crm", "db.example", "3306"):
        assert f'value="{value}"' in page
    assert "is kept, sealed" in page
    assert "PASSWORD-CANARY" not in page
    assert 'class="error"' not in page
    back = {**typed, "kind": "mariadb", "port": "3307", "other_kind": "postgresql"}
    assert 'value="3307"' in client.post("/sources/new", back).content.decode()


def test_a_change_is_tested_with_the_stored_password(world, browse, server):
    client = browse("root")
    client.post("/sources/new", {**server, "then": "test"})
    change = {**server, "password": "", "then": "test"}
    moved = client.post("/sources/crm/edit", {**change, "database": "elsewhere"})
    assert "Password</a>: required" in moved.content.decode()
    change["option_max_parallel_reads"] = "4"
    assert client.post("/sources/crm/edit", change).status_code == 302
    made = Datasource.objects.get(name="crm")
    assert made.options["max_parallel_reads"] == 4
    assert made.test_result["ok"]


def test_all_mistakes_are_told_at_once(world, browse):
    wrong = {
        **SOURCE,
        "name": "lake",
        "host": "169.254.169.254",
        "port": "70000",
        "database": "",
        "option_max_parallel_reads": "99",
    }
    page = browse("root").post("/sources/new", wrong).content.decode()
    for said in ("reserved", "65535", "32", "Database</a>", "Host</a>"):
        assert said in page


def test_a_password_that_was_lost_is_asked_for_until_it_is_entered(
    world, browse, server
):
    client = browse("root")
    assert client.post("/sources/new", server | {"then": "save"}).status_code == 302
    rows = Datasource.objects.filter(name="crm")
    rows.update(secret="", needs_password=True, host="gone.example")
    page = client.get("/sources/crm").content.decode()
    assert "Its password was lost" in page
    assert 'href="/sources/crm/edit"' in page
    assert "needs its password again" in client.get("/sources").content.decode()
    client.post("/sources/crm/edit", server | {"then": "save"})
    assert not rows.get().needs_password
    assert "Its password was lost" not in client.get("/sources/crm").content.decode()


@pytest.mark.parametrize(
    ("host", "found"),
    [
        (
            "postgresql://ann:p%40ss@db.example:5433/shop",
            ("db.example", "5433", "shop", "ann", "p@ss"),
        ),
        ("jdbc:mariadb://db.example", ("db.example", "5432", "", "", "")),
        ("mysql://[::1]:x/", ("mysql://[::1]:x/", "5432", "", "", "")),
        ("db.example", ("db.example", "5432", "", "", "")),
    ],
)
def test_an_address_is_spread_over_its_fields(host, found):
    empty = {"database": "", "username": "", "password": ""}
    data = taken_apart({"host": host, "port": "5432", **empty})
    names = ("host", "port", "database", "username", "password")
    assert tuple(data[name] for name in names) == found


@pytest.mark.parametrize(
    "host",
    [
        "postgresql://u:PASSWORD-CANARY/x@db.example:5432/crm",
        "postgresql://u:x?PASSWORD-CANARY@db.example/crm",
        "postgresql://u:12/PASSWORD-CANARY@db.example/crm",
        "postgresql://u:PASSWORD-CANARY@db.example:99999/crm",
        "postgresql://u:PASSWORD-CANARY@/crm",
        "jdbc:postgresql:///crm?password=PASSWORD-CANARY",
    ],
)
@pytest.mark.parametrize("pressed", [{}, {"other_kind": "mariadb"}])
def test_a_password_in_an_address_is_never_shown_again(world, browse, host, pressed):
    typed = {**SOURCE, "host": host, "name": "No", **pressed}
    text = browse("root").post("/sources/new", typed).content.decode()
    assert 'name="host"' in text
    assert "PASSWORD-CANARY" not in text


def test_another_kind_keeps_what_an_address_names(world, browse):
    pasted = {**SOURCE, "host": "mariadb://u:PASSWORD-CANARY@db.example/crm"}
    page = browse("root").post("/sources/new", {**pasted, "other_kind": "mariadb"})
    text = page.content.decode()
    assert "PASSWORD-CANARY" not in text
    assert 'value="db.example"' in text
    assert "is kept, sealed" in text


def test_a_pasted_password_is_sealed_like_a_typed_one(world, browse):
    pasted = {**SOURCE, "host": "postgresql://u:PASSWORD-CANARY@db.example/crm"}
    page = browse("root").post("/sources/new", {**pasted, "name": "No"})
    text = page.content.decode()
    assert "PASSWORD-CANARY" not in text
    assert "is kept, sealed" in text
    assert 'value="db.example"' in text


def test_a_step_with_a_remark_is_amber_and_its_statement_is_copied(world, browse):
    hint = (
        "run at the source: GRANT PROCESS ON *.* TO 'a'@'%';"
        " SET GLOBAL binlog_format = 'ROW'; /* and elsewhere */ GRANT SUPER ON x TO b;"
    )
    step = {"name": "privileges", "status": "ok", "message": "", "hint": hint}
    steps = [step | {"raw": "", "seconds": 0.1}]
    Datasource.objects.filter(name="shop").update(test_result={"steps": steps})
    (line,) = stored_steps(Datasource.objects.get(name="shop"))
    assert line.state == "warning"
    assert line.statements.splitlines() == [
        "GRANT PROCESS ON *.* TO 'a'@'%';",
        "SET GLOBAL binlog_format = 'ROW';",
        "GRANT SUPER ON x TO b;",
    ]
    Job.objects.filter(kind="test").delete()
    text = browse("root").get("/sources/shop").content.decode()
    assert 'data-copy="step-1"' in text
    assert '<li class="is-warn">' in text


@pytest.mark.parametrize(
    ("status", "hint", "is_offered"),
    [("failed", "", True), ("ok", "GRANT x TO y;", True), ("ok", "", False)],
)
def test_a_result_that_a_grant_may_have_mended_says_when_it_was_made(
    world, browse, status, hint, is_offered
):
    """No test is made by itself: a wrong password, tried again and again, locks an
    account."""
    step = {"name": "privileges", "status": status, "message": "", "hint": hint}
    found = {"steps": [step | {"raw": "", "seconds": 0.1}]}
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    Datasource.objects.filter(name="shop").update(test_result=found, tested_at=at)
    Job.objects.filter(kind="test").delete()
    text = browse("root").get("/sources/shop").content.decode()
    assert ('id="test-again"' in text) is is_offered
    assert ("This was the result at" in text) is is_offered
    assert 'title="2026-01-02 03:04:05 UTC"' in text
    work = browse("root").get("/sources/shop/work").content.decode()
    assert ('id="test-again"' in work) is is_offered
