"""Every page for an administrator, a user with few grants, and a stranger."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import URLPattern, reverse
from django.utils import timezone

from frontend.urls import urlpatterns
from tests.integration.frontend.reading import html_of
from tests.integration.frontend.world import CHINESE, HOSTILE, LONG, plan_of

# url name -> what to put into it; each with who gets it: admin, ann, eve
PAGES = {
    "home": (lambda w: [], 200, 200, 200),
    "first-steps": (lambda w: [], 200, 200, 200),
    "sources": (lambda w: [], 200, 200, 200),
    "source-new": (lambda w: [], 200, 403, 403),
    "source": (lambda w: ["shop"], 200, 200, 404),
    "source-work": (lambda w: ["shop"], 200, 200, 404),
    "source-pipeline": (lambda w: ["shop"], 200, 200, 404),
    "source-edit": (lambda w: ["shop"], 200, 403, 404),
    "source-labels": (lambda w: ["shop"], 200, 403, 404),
    "source-delete": (lambda w: ["shop"], 200, 403, 404),
    "onboard": (lambda w: ["shop"], 200, 403, 404),
    "onboarding": (lambda w: [w.proposed.pk], 200, 200, 404),
    "onboarding-overview": (lambda w: [w.onboarding.pk], 200, 200, 404),
    "onboarding-choose": (
        lambda w: [w.proposed.pk, w.proposed.tables.first().pk],
        200,
        403,
        404,
    ),
    "onboarding-discard": (lambda w: [w.proposed.pk], 200, 403, 404),
    "onboarding-many": (lambda w: [w.proposed.pk], 200, 403, 404),
    "health": (lambda w: [], 200, 200, 200),
    "table-health": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "tables": (lambda w: [], 200, 200, 200),
    "tables-labels": (lambda w: [], 400, 400, 400),
    "schema-changes": (lambda w: [], 200, 200, 200),
    "table": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-state": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-data": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-columns": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-activity": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-access": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-connect": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-commits": (lambda w: [w.lake_tables["orders"].pk], 200, 200, 404),
    "table-action": (lambda w: [w.lake_tables["orders"].pk, "remove"], 200, 403, 404),
    "table-policy": (lambda w: [w.lake_tables["orders"].pk], 200, 403, 404),
    "source-policy": (lambda w: ["shop"], 200, 403, 404),
    "alerts": (lambda w: [], 200, 200, 200),
    "find": (lambda w: [], 200, 200, 200),
    "alerts-badge": (lambda w: [], 200, 200, 200),
    "alert-targets": (lambda w: [], 200, 404, 404),
    "alert-target": (lambda w: ["pager"], 200, 404, 404),
    "alert-target-delete": (lambda w: ["pager"], 200, 404, 404),
    "jobs": (lambda w: [], 200, 200, 200),
    "job": (lambda w: [w.jobs["queued"].pk], 200, 200, 404),
    "job-live": (lambda w: [w.jobs["queued"].pk], 200, 200, 404),
    "job-log": (lambda w: [w.jobs["queued"].pk], 200, 200, 404),
    "schedule": (lambda w: [], 200, 200, 200),
    "preferences": (lambda w: [], 200, 200, 200),
    "password": (lambda w: [], 200, 200, 200),
    "connect": (lambda w: [], 200, 200, 200),
    "sql": (lambda w: [], 200, 200, 200),
    "sql-names": (lambda w: [], 200, 200, 200),
    "sql-tree": (lambda w: [], 200, 200, 200),
    "sql-saved": (lambda w: [], 200, 200, 200),
    "sql-history": (lambda w: [], 200, 200, 200),
    "tokens": (lambda w: [], 200, 200, 200),
    "users": (lambda w: [], 200, 404, 404),
    "users-user": (lambda w: ["ann"], 200, 404, 404),
    "users-delete": (lambda w: ["ann"], 200, 404, 404),
    "groups": (lambda w: [], 200, 404, 404),
    "groups-group": (lambda w: ["bi"], 200, 404, 404),
    "groups-delete": (lambda w: ["bi"], 200, 404, 404),
    "invitations": (lambda w: [], 200, 404, 404),
    "grants": (lambda w: [], 200, 404, 404),
    "grants-names": (lambda w: [], 200, 404, 404),
    "grants-people": (lambda w: [], 200, 404, 404),
    "grants-effective": (lambda w: [], 200, 404, 404),
    "rules": (lambda w: [], 200, 404, 404),
    "rules-seen": (lambda w: [], 200, 404, 404),
    "audit": (lambda w: [], 200, 404, 404),
    "sessions": (lambda w: [], 200, 404, 404),
    "system": (lambda w: [], 200, 404, 404),
}
# Pages that only take POST, and those that need a running gateway.
ELSEWHERE = {
    "language",
    "login", "logout", "source-test", "source-discover", "source-resume", "onboarding-approve",
    "job-cancel", "job-retry", "sql-run", "sql-statement", "sql-cancel", "sql-saved-change",
    "invited", "invitations-withdraw",
    "tokens-delete", "sessions-close", "grants-revoke", "rules-remove", "table-sample", "onboard-rows", "oidc", "oidc-back", "oidc-leave",
    "table-check", "onboarding-decide",
    "source-start-capture", "source-stop-capture", "source-begin-anew",
    "tables-act", "alerts-dismiss", "alerts-change", "alerts-mute", "alerts-unmute",
    "alert-target-test", "alert-target-resume",
}  # fmt: skip


def test_every_route_is_covered_here_or_elsewhere():
    names = {p.name for p in urlpatterns if isinstance(p, URLPattern)}
    assert names == set(PAGES) | ELSEWHERE


@pytest.mark.parametrize(
    ("user", "place"), [("root", 0), ("ann", 1), ("eve", 2), ("", None)]
)
def test_who_sees_which_page(
    user, place, world, browse, redis_url, django_assert_max_num_queries
):
    """One world, all pages: what each gets, with nothing hostile or secret in it, by
    few statements."""
    client = browse(user) if user else Client()
    for name, (make, *expected) in PAGES.items():
        url = reverse(f"frontend:{name}", args=make(world))
        with django_assert_max_num_queries(21 if user == "root" else 30):
            response = client.get(url)
        if place is None:
            assert response.status_code == 302
            assert response["Location"].startswith("/login?next=")
            continue
        assert response.status_code == expected[place], (user, url)
        text = response.content.decode()
        assert HOSTILE not in text
        assert "SECRET-CANARY" not in text
        assert " style=" not in text
        assert "<script>" not in text


def test_the_line_for_beeline_has_a_password(world, browse):
    """Without -p beeline logs in with none, and is refused."""
    line = browse("root").get("/connect").content.decode()
    line = html.unescape(line.partition("beeline -u")[2].partition("\n")[0])
    assert "-n root -p '<password or slt_ token>' -e" in line


def test_pyhive_connects_over_https_where_the_gateway_has_a_certificate(
    world, browse, settings
):
    """It has no TLS on the binary transport."""
    line = 'scheme="https", ssl_cert="required", check_hostname="true"'
    address = "hive+https://root:{password}@testserver:10001/?database=default&"
    for certificate, expected in [("", False), ("/etc/sluice/tls.pem", True)]:
        settings.SLUICE_TLS_CERTIFICATE = certificate
        page = html.unescape(browse("root").get("/connect").content.decode())
        assert (line in page) is expected
        assert (address in page) is expected
        assert (
            "hive://root:{password}@testserver:10000/default" in page
        ) is not expected


def test_a_hidden_table_answers_as_an_absent_one(world, browse):
    hidden = browse("eve").get(f"/tables/{world.lake_tables['orders'].pk}")
    absent = browse("eve").get("/tables/999999999")
    assert hidden.status_code == absent.status_code == 404
    assert b"orders" not in hidden.content


def test_ann_sees_only_what_she_was_granted(world, browse):
    text = browse("ann").get("/tables").content.decode()
    assert "orders" in text
    assert "customers" not in text
    jobs = browse("ann").get("/jobs").content.decode()
    assert "shop.orders" in jobs
    assert "shop.customers" not in jobs


def test_odd_names_are_shown_as_they_are(world, browse):
    text = browse("root").get("/tables").content.decode()
    assert CHINESE in text
    assert LONG in text
    page = browse("root").get(f"/tables/{world.lake_tables[CHINESE].pk}")
    assert CHINESE in page.content.decode()


@pytest.mark.parametrize("path", ["/", "/login", "/nothing/here", "/tables"])
def test_pages_carry_a_strict_content_security_policy(path, world, browse):
    response = browse("root").get(path, follow=True)
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response["X-Frame-Options"] == "DENY"
    assert response["Cache-Control"] == "no-store"


def test_the_editor_may_make_its_style_by_a_nonce_of_one_page(world, browse):
    """No other element may, and no other page lets any."""
    client = browse("root")
    nonces = set()
    for _ in range(2):
        response = client.get("/sql")
        nonce = re.search(r' nonce="([\w-]{22})"', response.content.decode())[1]
        policy = response["Content-Security-Policy"].split("; ")
        assert f"style-src 'self' 'nonce-{nonce}'" in policy
        assert "script-src 'self'" in policy
        assert not any("unsafe" in part for part in policy)
        nonces.add(nonce)
    assert len(nonces) == 2
    assert "style-src 'self';" in client.get("/tables")["Content-Security-Policy"]


def test_log_lines_page_backwards(world, browse):
    job = world.jobs["running"]
    client = browse("root")
    newest = client.get(f"/jobs/{job.pk}").content.decode()
    assert "chunk 229 of 230 staged" in newest
    assert "chunk 1 of 230 staged" not in newest
    oldest = job.log_lines.order_by("id")[50]
    older = client.get(f"/jobs/{job.pk}?before={oldest.pk}").content.decode()
    assert "chunk 1 of 230 staged" in older


def test_thousands_of_tables_are_paged(world, browse, django_assert_max_num_queries):
    from catalog.discovery.store import refresh_statistics
    from catalog.models import Database, Table

    database = Database.objects.get(datasource__name="shop", name="public")
    Table.objects.bulk_create(
        Table(database=database, name=f"t_{n:05}", source_name=f"t_{n:05}")
        for n in range(2_000)
    )
    refresh_statistics()  # as a discovery does at its end
    client = browse("root")
    deep = "/tables?where=source&sort=lag&page=30"
    for path in ("/sources/shop", deep, "/tables?where=all"):
        with django_assert_max_num_queries(20):
            response = client.get(path)
        assert response.status_code == 200
        assert len(response.content) < 120_000
    found = client.get("/tables?where=source&q=t_01999").content.decode()
    assert "t_01999" in found
    assert_pages_turn(client, "/tables?where=source")
    assert_pages_turn(client, "/sources/shop")
    assert client.get("/tables?after=nonsense").status_code == 400


def assert_pages_turn(client, path):
    """Forth twice and back twice: the same pages, and an end at both sides."""
    seen, links = [], []
    for way in ("next", "next", "prev", "prev", ""):
        text = client.get(path).content.decode()
        seen.append(re.findall(r">(t_\d{5})<", text))
        links.append(set(re.findall(r'rel="(next|prev)"', text)))
        link = re.search(rf'rel="{way}" href="(\?[^"]+)"', text)
        path = path.partition("?")[0] + link[1].replace("&amp;", "&") if link else ""
    assert seen[0] == seen[4]
    assert seen[1] == seen[3]
    assert len({name for page in seen[:3] for name in page}) == sum(map(len, seen[:3]))
    assert links == [
        {"next"},
        {"next", "prev"},
        {"next", "prev"},
        {"next", "prev"},
        {"next"},
    ]


def test_the_end_of_a_session_is_told_to_htmx(world):
    response = Client().get("/jobs", headers={"HX-Request": "true"})
    assert response.status_code == 401


def test_a_source_s_page_says_what_the_source_sees(world, browse):
    text = browse("root").get("/sources/shop").content.decode()
    assert "Load on the source" in text
    assert "2 that read rows, shared by all jobs of this source, and 2 for each" in text
    assert "5 s; then the job releases everything" in text


def test_a_source_s_page_says_which_tables_are_gone(world, browse):
    from catalog.models import Table

    rows = Table.objects.filter(pk=world.source_tables["free"].pk)
    rows.update(status="VANISHED", status_reason="the last discovery did not find it")
    text = browse("root").get("/sources/shop").content.decode()
    assert text.count("The last discovery did not find it") == 1


@pytest.mark.parametrize(
    "path", ["/sources", "/sources/shop", "/sources/shop/pipeline"]
)
def test_a_kind_of_source_is_called_by_its_product_s_name(path, world, browse):
    page = html_of(browse("root").get(path)).partition("<main")[2]
    assert "PostgreSQL" in page
    assert "postgresql" not in page.replace("postgresql://", "")


def test_a_table_s_page_says_what_its_syncs_cannot_see(world, browse):
    table = world.lake_tables["orders"]
    syncs = {
        "step": "ApplyChanges",
        "cursor": "updated_at",
        "every_seconds": 60,
        "lag_seconds": 5.0,
        "missed": ["deleted rows stay in the lake"],
    }
    promised = ["A plain table: a snapshot shows: its rows"]
    plan = plan_of("orders") | {"reading": promised}
    plan["steps"].append(syncs)
    world.onboarding.tables.filter(lake_table=table).update(plan=plan)
    page = browse("root").get(f"/tables/{table.pk}/data").content.decode()
    assert "What syncs do not capture" in page
    assert "Deleted rows stay in the lake" in page
    assert promised[0] in page


def test_the_pipeline_of_a_source_counts_draws_and_names_failures(world, browse):
    from core.models import Job

    orders = str(world.lake_tables["orders"].pk)
    now = timezone.now()
    for rows, minutes in ((700, 3), (300, 3), (5_000, 90)):
        at = now - timedelta(minutes=minutes)
        Job.objects.create(
            kind="sync", subject="lake.shop.orders", subject_id=orders, unit="rows",
            state="SUCCEEDED", done=rows, started_at=at, finished_at=at,
        )  # fmt: skip
    text = browse("root").get("/sources/shop/pipeline").content.decode()
    assert "max 1,000 rows" in text
    assert "under 1 min" in text
    assert "choose another cursor, or resync" in text
    assert "cursor_gone" in text
    failed = browse("root").get("/sources/shop/pipeline?status=FAILED")
    listed = failed.content.decode().split('id="table-list"')[1]
    assert "legacy" in listed
    assert "events" not in listed
    ann = browse("ann").get("/sources/shop/pipeline").content.decode()
    assert "orders" in ann
    assert "legacy" not in ann


def test_a_warning_of_many_tables_of_a_source_is_said_once(world, browse):
    from core.models import Job

    lacks, own = "what others do cannot be seen", "3 rows have no cursor"
    for name, texts in (
        # the newest counts
        ("orders", ["of former days"]),
        ("orders", [lacks, own]),
        ("legacy", [lacks]),
    ):
        Job.objects.create(
            kind="sync", subject=name, subject_id=str(world.lake_tables[name].pk),
            state="SUCCEEDED", report={"warnings": texts},
        )  # fmt: skip
    for who, tables in (("root", "2 tables"), ("ann", "1 table")):
        text = browse(who).get("/sources/shop/pipeline").content.decode()
        assert text.count(lacks) == text.count(own) == 1
        assert tables in " ".join(text.split(lacks)[1].split())[:120]
        assert "of former days" not in text


def test_why_somebody_may_is_explained(world, browse):
    asked = {"who": "user:ann", "on": "lake.shop.orders"}
    text = browse("root").get("/grants/effective", asked).content.decode()
    rows = text.split("<tr>")
    assert next(r for r in rows if ">select<" in r).count("group:bi") == 1
    assert "no grant allows it" in next(r for r in rows if ">manage<" in r)
    wrong = browse("root").get("/grants/effective", {**asked, "who": "user:nobody"})
    assert "there is no user" in wrong.content.decode().lower()


def test_the_audit_is_filtered(world, browse):
    from catalog.access import audit
    from core.context import working_for

    for actor, door, ok in (("ann", "rest", True), ("eve", "gateway", False)):
        with working_for(actor=actor, door=door):
            audit.record("thing.look", on=f"lake.of.{actor}", is_allowed=ok)
    root = browse("root")
    for query, shown, hidden in (
        ("door=gateway&action=thing", "lake.of.eve", "lake.of.ann"),
        ("outcome=denied", "lake.of.eve", "lake.of.ann"),
        ("object=of.ann", "lake.of.ann", "lake.of.eve"),
    ):
        text = root.get(f"/audit?{query}").content.decode()
        assert f">{shown}<" in text, query
        assert f">{hidden}<" not in text, query


def test_health_tells_what_upkeep_writes_and_how_a_table_grows(world, browse):
    page = browse("root").get(f"/tables/{world.lake_tables['orders'].pk}/health")
    text = html_of(page)
    assert "Written per byte of changed rows" in text
    # 28 MB of changed rows in 7 days, 21 MB of compactions; a megabyte more each day
    assert '<dd class="number">1.8 <' in text
    assert "1 MB" in text.partition("Grows per day by")[2][:80]
    assert "Bytes rewritten by maintenance, by day" in text
