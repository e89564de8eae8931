"""The SQL page around the gateway's answers, and without a gateway at all."""

from __future__ import annotations

import pytest

from catalog.access import audit
from core.context import working_for
from core.errors import NotFound, SluiceError
from frontend.reading import history

RUNNING = {
    "id": "s1",
    "state": "RUNNING",
    "columns": [],
    "rows_so_far": 0,
    "is_truncated": False,
    "error": None,
}
COLUMNS = [{"name": "n<b>", "type": "bigint"}, {"name": "t", "type": "string"}]
FINISHED = {**RUNNING, "state": "FINISHED", "columns": COLUMNS, "rows_so_far": 501}
FAILED = {
    **RUNNING,
    "state": "ERROR",
    "error": {"code": "42P01", "message": "no table <i>x</i>", "sql_state": "42P01"},
}
HTMX = {"HX-Request": "true"}


@pytest.fixture
def gateway(monkeypatch):
    """The gateway's client with answers of this test; it notes what it was asked."""
    from gateway import client

    asked: list[tuple[str, ...]] = []
    answers = {"statement": RUNNING}

    def submit(user, sql, **_):
        asked.append(("submit", user, sql))
        return answers["statement"]

    def look(user, statement_id, **_):
        if user != "ann":
            raise NotFound("there is no such statement")
        return answers["statement"]

    def results(user, statement_id, *, page=0):
        following, first = (1, 0) if page == 0 else (None, 499)
        rows = [["9007199254740993", None], ["1", "<script>"]]
        facts = {"columns": COLUMNS, "first_row": first, "next_page": following}
        facts["previous_page"] = 0 if page else None
        return {**facts, "rows": rows}

    def cancel(user, statement_id):
        asked.append(("cancel", user, statement_id))
        return {**RUNNING, "state": "CANCELED"}

    monkeypatch.setattr(client, "submit_statement", submit)
    monkeypatch.setattr(client, "statement_of", look)
    monkeypatch.setattr(client, "results_of", results)
    monkeypatch.setattr(client, "cancel_statement", cancel)
    return asked, answers


def run(client, sql="SELECT 1"):
    return client.post("/sql/run", {"sql": sql}, headers=HTMX).content.decode()


def test_a_statement_runs_is_watched_and_cancelled(world, browse, gateway):
    asked, _ = gateway
    ann = browse("ann")
    text = run(ann)
    assert asked == [("submit", "ann", "SELECT 1")]
    assert 'hx-trigger="every 1s"' in text
    assert "statement-cancel" in text
    ended = ann.post("/sql/s1/cancel", headers=HTMX).content.decode()
    assert ("cancel", "ann", "s1") in asked
    assert "cancelled" in ended
    assert "data-poll" not in ended


def test_one_whose_engine_ended_says_what_comes_of_it(world, browse, gateway):
    _, answers = gateway
    answers["statement"] = {**RUNNING, "waits_for": "the engine ended; it runs again"}
    text = run(browse("ann"))
    assert "The engine ended; it runs again." in text
    assert "Running." not in text


def test_a_statement_that_ended_says_so_before_its_line_of_the_audit(
    world, browse, gateway
):
    """The history has its state, and the seconds of the gateway, as the result has."""
    _, answers = gateway
    ann = browse("ann")
    assert 'data-state="RUNNING"' in history_in(run(ann))
    assert "data-state" not in history_in(
        ann.get("/sql/s1", headers=HTMX).content.decode()
    )
    answers["statement"] = {**FINISHED, "seconds": 5.2}
    shown = ann.get("/sql/s1", headers=HTMX).content.decode()
    assert 'data-elapsed="5.2"' in shown
    assert 'data-state="FINISHED"' in history_in(shown)
    listed = ann.get("/sql/history", headers=HTMX).content.decode()
    assert "finished" in listed
    assert "5.2 s" in listed


def history_in(text: str) -> str:
    return text.partition('id="history"')[2]


@pytest.mark.parametrize("lost", [NotFound("swept away"), SluiceError("no gateway")])
def test_what_the_gateway_does_not_know_is_unknown(
    world, browse, gateway, monkeypatch, lost
):
    from gateway import client

    ann = browse("ann")
    run(ann)
    asked = []

    def look(user, statement_id, **_):
        asked.append(statement_id)
        raise lost

    monkeypatch.setattr(client, "statement_of", look)
    listed = ann.get("/sql/history", headers=HTMX).content.decode()
    assert asked == ["s1"]
    assert 'data-state="UNKNOWN"' in listed


PROGRESS = {"tasks_done": 31, "tasks": 200, "stages_done": 1, "stages": 4}


@pytest.mark.parametrize(
    ("amounts", "said"),
    [
        ({"rows": 1_200_000, "bytes": 84_000_000}, "· 1,200,000 rows, 84 MB read"),
        ({"rows": None, "bytes": None}, ""),  # rules keep rows back
    ],
)
def test_how_far_a_statement_is(world, browse, gateway, amounts, said):
    _, answers = gateway
    answers["statement"] = {**RUNNING, "progress": PROGRESS | amounts}
    text = " ".join(run(browse("ann")).split())
    assert "Stage 1 of 4" in text
    assert f"31 of 200 tasks {said}".strip() in text
    assert '<progress max="200" value="31"' in text
    assert "None" not in text


PLAN = (
    "== Physical Plan ==\n* Filter (2)\n+- Scan parquet spark_catalog.shop.{} (1)\n\n"
)


@pytest.mark.parametrize(
    ("table", "rows"), [("orders", "about 120,000 rows"), ("customers", "")]
)
def test_a_plan_is_a_picture_beside_its_text(
    world, browse, gateway, monkeypatch, table, rows
):
    """Scans have the rows of tables that ann may see."""
    from gateway import client

    _, answers = gateway
    columns = [{"name": "plan", "type": "string"}]
    answers["statement"] = {**FINISHED, "columns": columns}
    facts = {"columns": columns, "first_row": 0, "next_page": None}
    answer = {**facts, "rows": [[PLAN.format(table)]]}
    monkeypatch.setattr(client, "results_of", lambda *_, **__: answer)
    text = run(browse("ann"), "EXPLAIN SELECT 1")
    assert 'class="tree"' in text
    assert f"shop.{table}" in text
    assert "== Physical Plan ==" in text
    assert ("about" in text) == bool(rows)
    assert rows in text


def test_a_result_is_shown_escaped_and_paged(world, browse, gateway):
    _, answers = gateway
    answers["statement"] = FINISHED
    text = run(browse("ann"))
    assert "9007199254740993" in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
    assert "n&lt;b&gt;" in text
    assert "NULL" in text
    assert "number=1" in text
    for name in ("csv", "parquet", "xlsx"):
        assert f"/api/v1/sql/statements/s1/results?format={name}" in text
    assert "data-poll" not in text


def test_a_page_says_which_rows_it_has_however_many_came_before(world, browse, gateway):
    _, answers = gateway
    answers["statement"] = FINISHED
    text = run(browse("ann"))
    assert "Rows 1–2 of 501" in text
    text = browse("ann").get("/sql/s1?number=1", headers=HTMX).content.decode()
    assert "Rows 500–501 of 501" in text
    assert "number=0" in text


def test_an_error_is_a_card(world, browse, gateway):
    _, answers = gateway
    answers["statement"] = FAILED
    text = run(browse("ann"))
    assert "no table &lt;i&gt;x&lt;/i&gt;" in text
    assert "42P01" in text


def test_what_only_reads_allow_names_no_privilege(world, browse, gateway):
    _, answers = gateway
    said = (
        "DELETE FROM TABLE is not open to SQL users. Lake tables are read-only; allowed"
    )
    error = {"code": "42501", "message": said, "sql_state": "42501"}
    answers["statement"] = {**FAILED, "error": error}
    text = run(browse("ann"), "DELETE FROM shop.orders")
    assert "change the row at its source" in text
    assert "<strong>This statement is not allowed here." in text
    assert "ask an administrator" not in text


def test_statements_are_remembered_and_belong_to_one_person(world, browse, gateway):
    ann = browse("ann")
    run(ann, "SELECT 'mine'")
    assert "SELECT &#x27;mine&#x27;" in ann.get("/sql").content.decode()
    eve = browse("eve")
    assert "mine" not in eve.get("/sql").content.decode()
    assert "no such statement" in eve.get("/sql/s1", headers=HTMX).content.decode()


def test_without_scripts_the_page_still_answers(world, browse, gateway):
    text = browse("ann").post("/sql/run", {"sql": "SELECT 1"}).content.decode()
    assert "<h1>SQL</h1>" in text
    assert "SELECT 1" in text


COMPLETED = [
    ({"typed": "sho"}, ["shop"]),
    ({"typed": "shop.or"}, ["shop.orders"]),
    ({"typed": "shop."}, ["shop.orders", "shop.public"]),  # all that ann may see
    ({"typed": "SHOP.orders.upd"}, ["shop.orders.updated_at"]),
    ({"typed": "amo", "in": "shop.orders"}, ["amount"]),
    ({"typed": "", "table": "shop.orders"}, ["id", "name", "`订单号`"]),
    ({"typed": "_hoodie_commit_t", "in": "shop.orders"}, ["_hoodie_commit_time"]),
    ({"typed": "am", "in": "shop.customers"}, []),
    ({"typed": "%"}, []),
]


def names(client, **asked):
    return [one["text"] for one in client.get("/sql/names", asked).json()["names"]]


def test_names_complete_as_far_as_they_may_be_seen(world, browse):
    ann, eve = browse("ann"), browse("eve")
    for asked, found in COMPLETED:
        assert names(ann, **asked)[:3] == found, asked
        assert names(eve, **asked) == [], asked


def test_what_was_asked_before_comes_from_the_audit_trail(world, browse):
    for actor, sql in (("ann", "SELECT 'by jdbc'"), ("root", "SELECT 'of root'")):
        with working_for(actor=actor, door="gateway"):
            facts = {"statement": sql, "state": "FINISHED", "seconds": 1.5}
            audit.record("statement.run", on="op", **facts)
    text = browse("ann").get("/sql/history").content.decode()
    assert "by jdbc" in text
    assert "1.5 s" in text
    assert "of root" not in text
    assert "by jdbc" not in browse("ann").get("/sql/history?q=xyz").content.decode()


def test_a_search_reads_ones_own_newest_statements(world, browse, monkeypatch):
    monkeypatch.setattr(history, "SEARCHED", 2)
    for actor, sql in (
        ("ann", "SELECT 'forgotten'"),
        ("ann", "SELECT 'Wanted 100%'"),
        ("root", "SELECT 'wanted by root'"),
        ("ann", "SELECT 2"),
    ):
        with working_for(actor=actor, door="gateway"):
            audit.record("statement.run", on="op", statement=sql, seconds=1)
    ann = browse("ann")

    def found(q):
        return ann.get("/sql/history", {"q": q}).content.decode()

    assert "Wanted 100%" in found("wanted")
    assert "by root" not in found("wanted")
    assert "Wanted 100%" in found("00%")
    assert "Wanted 100%" not in found("0%0")
    assert "forgotten&#x27;" not in found("forgotten")
    assert "the newest" in found("x")
    assert "forgotten&#x27;" in found("")


def test_a_plan_is_asked_for_with_one_button(world, browse, gateway):
    asked, _ = gateway
    sent = {"sql": "SELECT 1;", "explain": "1"}
    browse("ann").post("/sql/run", sent, headers=HTMX)
    assert asked == [("submit", "ann", "EXPLAIN FORMATTED SELECT 1")]


@pytest.mark.parametrize(
    ("sql", "said"), [("", "no statement"), ("SELECT 1", "gateway")]
)
def test_without_a_gateway_it_says_so(world, browse, settings, sql, said):
    settings.SLUICE_GATEWAY_INTERNAL = "/nowhere/at/all"
    assert said in run(browse("ann"), sql)


def test_a_sample_needs_the_right_to_select(world, browse, settings):
    settings.SLUICE_GATEWAY_INTERNAL = "/nowhere/at/all"
    orders = world.lake_tables["orders"].pk
    url = f"/tables/{orders}/sample"
    assert browse("ann").get(url).status_code == 200
    assert browse("eve").get(url).status_code == 404
    source = world.source_tables["orders"].pk
    assert browse("ann").get(f"/tables/{source}/sample").status_code == 403
