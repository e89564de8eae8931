"""The parts of pages that scripts make: the SQL editor, the table picker, the tree."""

from __future__ import annotations

import os
import threading

import pytest

from catalog.models import ApiToken, Column, Table
from tests.browser.test_look import AXE

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "name", "type": "string"}]
FINISHED = {
    "id": "s1",
    "state": "FINISHED",
    "columns": COLUMNS,
    "rows_so_far": 2,
    "is_truncated": False,
    "error": None,
}
WRONG = {
    **FINISHED,
    "state": "ERROR",
    "columns": [],
    "error": {
        "code": "42703",
        "sql_state": "42703",
        "message": "no column `nope`; line 1 pos 7;\n'Project",
    },
}

PALE = """async (include) => {
  const found = await axe.run({ include }, { runOnly: ["color-contrast"] });
  return found.violations.flatMap((one) => one.nodes.map((node) => node.html));
}"""


@pytest.fixture
def gateway(monkeypatch):
    """Answers of a gateway; the statements that it was asked."""
    from gateway import client

    asked: list[str] = []

    def submit(user, sql, **_):
        asked.append(sql)
        return WRONG if "nope" in sql else FINISHED

    def results(user, statement_id, *, page=0):
        rows = [["1", "one"], ["2", None]]
        return {"columns": COLUMNS, "rows": rows, "first_row": 0, "next_page": None}

    monkeypatch.setattr(client, "submit_statement", submit)
    monkeypatch.setattr(client, "statement_of", lambda *_: FINISHED)
    monkeypatch.setattr(client, "results_of", results)
    return asked


TWO = (
    "SELECT a.na FROM shop.orders a\nWHERE a.name = ';' -- it's\n;\nSELECT nope FROM t"
)


def put_cursor(page, line, column):
    """As a person does: into the editor, to its begin, down and to the right."""
    page.click(".cm-content")
    page.keyboard.press("Control+Home")
    for key in ["ArrowDown"] * line + ["ArrowRight"] * column:
        page.keyboard.press(key)


def run(page, keys="Control+Enter"):
    with page.expect_response("**/sql/run"):
        page.keyboard.press(keys)


def test_the_editor_completes_runs_parts_and_keeps_tabs(page, gateway, keep):
    orders = Table.objects.get(name="orders", kind="lake")
    page.open(f"/sql?table={orders.pk}")
    assert page.input_value("#sql") == "SELECT * FROM shop.orders LIMIT 10"
    page.fill("#sql", TWO)
    put_cursor(page, 0, 11)
    page.keyboard.type("m")  # a.nam: the alias stands for shop.orders
    page.wait_for_selector(".cm-tooltip-autocomplete >> text=name")
    keep(page, "editor-completion")
    page.keyboard.press("Enter")
    run(page)
    assert gateway[-1] == TWO.replace("a.na ", "a.name ").split("\n;\n")[0]
    page.wait_for_selector("#statement td:has-text('NULL')")
    page.click("#statement td >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#statement td.is-picked") == "2"
    put_cursor(page, 3, 2)
    page.click("#run")
    page.wait_for_selector("#statement [data-state=ERROR]")
    assert gateway[-1] == "SELECT nope FROM t"
    assert page.inner_text(".is-wrong-line").endswith("SELECT nope FROM t")
    put_cursor(page, 3, 0)
    page.keyboard.press("Shift+End")
    page.click("#explain")
    page.wait_for_selector("#history code:has-text('EXPLAIN')", state="attached")
    assert gateway[-1] == "EXPLAIN FORMATTED SELECT nope FROM t"
    page.click(".tab-new")
    page.keyboard.type("SELECT 2; SELECT 3")
    page.reload()
    page.wait_for_selector(".tab >> nth=1")
    assert page.input_value("#sql") == "SELECT 2; SELECT 3"
    page.click("#run-all")
    page.wait_for_selector("#history code:has-text('SELECT 3')", state="attached")
    assert gateway[-2:] == ["SELECT 2", "SELECT 3"]
    page.click("#sql-tabs >> text=Query 1")
    assert page.input_value("#sql").startswith("SELECT a.name")


PURE = """async () => {
  const at = "/static/frontend/js/";
  const text = await import(`${at}sql_text.js`);
  const chart = await import(`${at}sql_chart.js`);
  const { asTsv } = await import(`${at}sql_result.js`);
  const values = { day: "it's", n: "7" };
  const rows = [["b", "3"], ["a", null], ["c", "1"]];
  const columns = [{ name: "k", isNumber: false }, { name: "n", isNumber: true }];
  const asked = { kind: "bar", x: "k", y: ["n"] };
  const sql = "select a, 'from  x' from t -- of\\nwhere b in (select c from u) limit 3";
  return {
    filled: text.withParameters("{{day}} '{{ day }}' {{n}}", values),
    form: text.formatted(sql),
    kept: chart.withChart(chart.withChart("SELECT 1", asked), { ...asked, kind: "pie" }),
    read: chart.chartIn(chart.withChart("SELECT 1", asked)),
    proposed: chart.proposed(columns, rows),
    shapes: chart.KINDS.map((kind) => {
      const drawn = chart.chartOf(columns, rows, { ...asked, kind });
      return drawn.querySelectorAll("rect, circle, path").length;
    }),
    legend: chart.chartOf(
      [...columns, { name: "m", isNumber: true }],
      rows.map((row) => [...row, "2"]),
      { ...asked, y: ["n", "m"] },
    ).querySelectorAll("rect:not(:has(title)) + text").length,
    tsv: asTsv([["k", "n"], ["a\\tb", null]]),
  };
}"""


def test_results_are_sorted_filtered_expanded_and_drawn(page, gateway, keep):
    page.open("/sql")
    found = page.evaluate(PURE)
    assert found["form"].split("\n") == [
        "SELECT a, 'from  x'",
        "FROM t -- of",
        "WHERE b IN (",
        "  SELECT c",
        "  FROM u)",
        "LIMIT 3",
        "",
    ]
    assert found["filled"] == r"'it\'s' 'it\'s' 7"
    assert found["kept"] == '-- chart: {"kind":"pie","x":"k","y":["n"]}\nSELECT 1'
    assert found["read"] == found["proposed"] == {"kind": "bar", "x": "k", "y": ["n"]}
    assert found["shapes"] == [2, 2, 2, 2, 6]
    assert found["legend"] == 2
    assert found["tsv"] == "k\tn\na b\t"
    page.fill("#sql", "SELECT {{least}}")
    page.click("#run")
    assert page.evaluate("document.activeElement.dataset.parameter") == "least"
    page.fill("[data-parameter=least]", "5")
    page.click("#run")
    page.wait_for_selector("#statement .result td")
    assert gateway[-1] == "SELECT 5"
    first = page.locator("#statement tbody tr:visible td").first
    page.click("#statement th button >> text=id")
    page.click("#statement th button >> text=id")
    assert first.inner_text() == "2"
    page.fill("[data-tool=filter]", "one")
    assert first.inner_text() == "1"
    first.click()
    page.keyboard.press("Enter")
    assert page.inner_text("#cell-dialog pre") == "1"
    page.keyboard.press("Escape")
    page.click("[data-tool=as-chart]")
    page.wait_for_selector(".picture svg rect")
    keep(page, "sql-chart")
    page.click(".cm-content")
    page.keyboard.press("Control+s")
    page.keyboard.type("mine")
    page.keyboard.press("Enter")
    page.wait_for_selector("#saved code:has-text('-- chart')")
    assert page.inner_text(".tab.is-current").startswith("mine")
    page.click(".cm-content")
    page.keyboard.type(" ")
    with page.expect_response("**/sql/saved"):  # under the same name
        page.keyboard.press("Control+s")
    assert page.locator("#saved .history > li").count() == 1


@pytest.mark.long
def test_a_statement_that_is_run_beside_another_shows_its_own_result(
    page, gateway, monkeypatch
):
    """The first is polled each second, while the request of the second takes longer."""
    from gateway import client

    polls = threading.Semaphore(0)
    running = {**FINISHED, "id": "s0", "state": "RUNNING", "columns": []}

    def submit(user, sql, **_):
        if sql == "SELECT 1":
            return running
        polls.acquire(timeout=1.5)  # a poll would come in between
        return FINISHED

    def state_of(*_):
        polls.release()
        return running

    monkeypatch.setattr(client, "submit_statement", submit)
    monkeypatch.setattr(client, "statement_of", state_of)
    page.open("/sql")
    page.fill("#sql", "SELECT 1")
    run(page)
    page.wait_for_selector("#statement [data-state=RUNNING]")
    with page.expect_response(lambda reply: "/sql/s0?" in reply.url):
        pass
    polls.acquire()
    page.fill("#sql", "SELECT 2")
    run(page)
    page.wait_for_selector("#statement [data-state=FINISHED]")
    page.wait_for_selector("#statement td:has-text('NULL')")


STYLE_OF = "getComputedStyle(document.querySelector('{}')).{}"


def test_the_editor_is_worked_and_left_by_keys(page, gateway, keep):
    page.open("/sql")
    editor = page.get_by_role("textbox", name="SQL statement; Escape leaves the editor")
    editor.focus()
    page.keyboard.type("sel")
    page.wait_for_selector("[role=listbox][aria-label=Completions] >> text=SELECT")
    page.keyboard.press("Tab")  # takes it
    page.keyboard.type(" COUNT(a")
    page.keyboard.press("End")
    page.keyboard.press("Enter")  # nothing to indent below a statement's line
    page.keyboard.type("FROM t")
    page.keyboard.press("Escape")  # the proposals leave, nothing else
    page.wait_for_selector("[role=listbox]", state="detached")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    assert page.input_value("#sql") == "SELECT COUNT(a)\n    FROM t"
    page.keyboard.press("Shift+Home")
    page.keyboard.press("Shift+Tab")
    assert page.input_value("#sql") == "SELECT COUNT(a)\n  FROM t"
    page.keyboard.press("Control+/")
    assert page.input_value("#sql") == "SELECT COUNT(a)\n  -- FROM t"
    page.keyboard.press("Control+/")
    assert page.input_value("#sql") == "SELECT COUNT(a)\n  FROM t"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "run"
    editor.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("; SELECT ")
    page.keyboard.press("Control+Space")
    page.wait_for_selector("[role=listbox]")
    page.keyboard.press("Escape")
    page.keyboard.type("2")
    run(page, "Control+Shift+Enter")
    page.wait_for_selector("#history code:has-text('SELECT 2')", state="attached")
    assert gateway == ["SELECT COUNT(a)\n  FROM t", "SELECT 2"]


def test_typing_over_lines_makes_no_inline_style(page, gateway):
    """Chromium's own way makes one, which the policy of content refuses aloud."""
    page.open("/sql")
    page.fill("#sql", "SELECT 1\nFROM t")
    put_cursor(page, 0, 0)
    page.keyboard.press("Control+a")
    page.keyboard.type("b")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+a")
    page.keyboard.type("(")  # closes around what is selected
    assert page.input_value("#sql") == "(SELECT 1\nFROM t)"
    page.keyboard.type("sel")
    page.wait_for_selector("[role=listbox] >> text=SELECT")
    assert page.input_value("#sql") == "(sel)"


def test_the_editor_has_the_colours_of_the_theme(page, gateway, keep):
    """Its style element needs the nonce of the page's policy to count."""
    page.open("/sql")
    page.fill("#sql", "-- all\nSELECT count(*), 'a', 1, null FROM t WHERE ")
    put_cursor(page, 1, 200)
    assert page.evaluate(STYLE_OF.format(".cm-content", "whiteSpace")) == "pre"
    page.keyboard.press("Shift+Home")
    for theme in ("light", "dark"):
        page.evaluate(
            "theme => { document.documentElement.dataset.theme = theme }", theme
        )
        kinds = ("keyword", "string", "value", "builtin", "comment")
        shown = {
            page.evaluate(STYLE_OF.format(f".tok-{kind}", "color")) for kind in kinds
        }
        assert len(shown) == len(kinds), shown
        keep(page, f"editor-colours-{theme}")
    page.keyboard.press("End")
    page.keyboard.press("Control+Space")
    page.wait_for_selector("[role=listbox]")
    keep(page, "editor-completion-dark")


def test_without_scripts_the_plain_field_is_sent(logged_in, gateway):
    page = logged_in(scripts=False)
    page.open("/sql")
    page.get_by_label("SQL statement").fill("SELECT 5")
    page.click("#run")
    page.wait_for_selector("#statement td:has-text('NULL')")
    assert gateway == ["SELECT 5"]
    assert page.get_by_label("SQL statement").input_value() == "SELECT 5"


@pytest.mark.long
def test_the_picker_shows_a_few_of_many(page, keep):
    first = Table.objects.get(name="free", kind="source")
    Table.objects.bulk_create(
        Table(database=first.database, name=f"t{n:04}", source_name=f"t{n:04}")
        for n in range(900)
    )
    page.open("/sources/shop/onboard")
    page.wait_for_selector("#pick-found:has-text('908 tables')")
    assert page.locator(".vrow").count() < 60
    page.locator(".vlist").evaluate("e => { e.scrollTop = e.scrollHeight }")
    page.wait_for_selector(".vrow:has-text('t0899')")
    page.fill("#pick-q", "t0*9")
    page.wait_for_selector("#pick-found:has-text('90 tables')")
    page.click("#pick-all")
    page.uncheck("input[data-table='public.t0019']")
    assert page.inner_text("#picked-count") == "89"
    page.locator("input[data-table='public.t0019']").focus()
    page.keyboard.press("ArrowDown")
    focused = "document.activeElement.dataset.table"
    assert page.evaluate(focused) == "public.t0029"
    keep(page, "picker-all-but-one")
    page.fill("#pick-q", "free")
    page.wait_for_selector("#pick-found:has-text('1 table')")
    page.check("input[data-table='public.free']")
    assert page.inner_text("#picked-count") == "90"
    sent = page.evaluate("Object.fromEntries(new FormData(picker))")
    assert sent["selected"] == "public.free"
    assert sent["matching_q"] == "t0*9"
    assert sent["unselected"] == "public.t0019"
    page.fill("#id_target_database", "Not Good")
    page.click("text=Show the plan")
    page.wait_for_selector("text=cannot be a lake database")
    assert page.inner_text("#picked-count") == "90", "an error undoes nothing"
    kept = page.evaluate("Object.fromEntries(new FormData(picker))")
    assert {k: kept[k] for k in sent if "matching" in k or "selected" in k} == {
        k: v for k, v in sent.items() if "matching" in k or "selected" in k
    }


def test_the_tree_inserts_names_and_wide_tables_stay_small(page):
    page.open("/sql")
    page.click(".sql-tree summary:has-text('shop')")
    page.click("[aria-label='Insert shop.orders']")
    assert "shop.orders" in page.input_value("#sql")
    orders = Table.objects.get(name="orders", kind="lake")
    Column.objects.bulk_create(
        Column(table=orders, position=n, name=f"c{n}", source_name=f"c{n}")
        for n in range(10, 310)
    )
    page.set_viewport_size({"width": 390, "height": 860})
    page.open(f"/tables/{orders.pk}")
    page.wait_for_selector("[data-dressed]")
    assert page.evaluate("document.documentElement.scrollHeight") < 8_000


@pytest.mark.long
def test_the_page_of_rest_shows_examples_and_asks_as_who_looks(page, keep):
    """What the policy of content refuses is an error on the console, which fails."""
    page.open("/api/v1/docs")
    assert page.locator(".opblock-tag-section.is-open").count() == 0
    page.click("#operations-tag-config")
    page.click("#operations-tag-tokens")
    page.click("text=Versions, limits, what this installation can do")
    page.wait_for_selector("#operations-config-getConfig .example")
    keep(page, "rest")
    page.click("#operations-config-getConfig >> text=Try it out")
    page.click("#operations-config-getConfig >> text=Execute")
    page.wait_for_selector(
        "#operations-config-getConfig .live-responses-table .response"
    )
    text = page.inner_text("#operations-config-getConfig .live-responses-table")
    assert '"is_admin": true' in text
    page.click("#operations-tokens-postTokens .opblock-summary-control")
    page.click("#operations-tokens-postTokens >> text=Try it out")
    page.click("#operations-tokens-postTokens >> text=Execute")
    page.wait_for_selector(
        "#operations-tokens-postTokens .live-responses-table .response"
    )
    assert ApiToken.objects.get().name == "reports"
    # what is open shows every part that has text, and a PATCH its colour
    parts = [".info", ".filter", ".opblock-tag-section:has(.is-open)", ".opblock-patch"]
    page.evaluate(AXE)
    for theme in ("light", "dark"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        assert page.evaluate(PALE, parts) == [], theme
