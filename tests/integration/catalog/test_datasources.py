"""Datasources over REST: life, wrong input, secrets, idempotency."""

from __future__ import annotations

import json

import pytest
from django.db import OperationalError, connection

from catalog import extensions
from catalog.api import idempotency
from catalog.models import ApiToken, Datasource, IdempotencyKey, Table
from catalog.secrets import password_of
from core.models import Job
from core.sentences import Sentence
from tests.integration.at_once import at_once
from tests.integration.catalog.asking import CANARY, new_source, problem

pytestmark = pytest.mark.django_db


# ------------------------------------------------------------- datasources
def test_a_datasource_lives_with_an_etag(admin):
    made = admin("POST", "datasources", new_source())
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/datasources/crm"
    tag = made["ETag"]
    assert admin("GET", "datasources/crm")["ETag"] == tag
    assert admin("GET", "datasources/crm", If_None_Match=tag).status_code == 304
    changed = admin("PATCH", "datasources/crm", {"tls": "require"}, If_Match=tag)
    assert changed.status_code == 200
    assert changed["ETag"] != tag
    stale = admin("PATCH", "datasources/crm", {"tls": "off"}, If_Match=tag)
    problem(stale, 412, "precondition_failed")
    problem(
        admin("DELETE", "datasources/crm", If_Match=tag), 412, "precondition_failed"
    )
    assert Datasource.objects.get(name="crm").tls == "require"
    odd = admin("PATCH", "datasources/crm", {"tls": "off"}, If_Match='"x"')
    problem(odd, 412, "precondition_failed")


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"name": "lake"}, 400, "reserved_name"),
        ({"name": "Default"}, 400, "reserved_name"),
        ({"name": "a.b"}, 400, "invalid_name"),
        ({"name": "a:b"}, 400, "invalid_name"),
        ({"name": ""}, 400, "invalid_request"),
        ({"kind": "oracle"}, 501, "not_yet"),
        ({"kind": "dbase"}, 400, "unknown_kind"),
        ({"port": 0}, 400, "invalid_request"),
        ({"port": "5432"}, 400, "invalid_request"),
        ({"port": 70_000}, 400, "invalid_request"),
        ({"tls": "maybe"}, 400, "invalid_datasource"),
        ({"url": "jdbc:x"}, 400, "unknown_field"),
        ({"host": "169.254.169.254"}, 400, "network_denied"),
        ({"host": "::ffff:169.254.169.254"}, 400, "network_denied"),
        ({"host": "0xA9FEA9FE"}, 400, "invalid_host"),
        ({"host": "db/x?y=z"}, 400, "invalid_host"),
        ({"host": "a b"}, 400, "invalid_host"),
        ({"options": {"socketFactory": "x"}}, 400, "invalid_options"),
        ({"options": {"max_parallel_reads": 99}}, 400, "invalid_options"),
        ({"options": {"max_parallel_reads": True}}, 400, "invalid_options"),
        ({"options": []}, 400, "invalid_request"),
        ({"database": None}, 400, "invalid_request"),
        ({"database": ""}, 400, "invalid_datasource"),
        ({"database": "a\nb"}, 400, "invalid_datasource"),
        ({"username": 7}, 400, "invalid_request"),
    ],
)
def test_wrong_datasources_are_refused_by_name(admin, change, status, code):
    body = problem(admin("POST", "datasources", new_source(**change)), status, code)
    assert status == 501 or body["errors"] or body["hint"]
    assert CANARY not in json.dumps(body)
    assert not Datasource.objects.filter(kind="postgresql").exists()


def test_sentences_are_in_the_language_that_a_request_accepts(admin, shop):
    def refused(**headers):
        wrong = new_source(host="169.254.169.254")
        return problem(admin("POST", "datasources", wrong, **headers), 400, code)

    code = "network_denied"
    assert refused()["detail"] == "a datasource may not point to 169.254.169.254"
    chinese = refused(Accept_Language="zh-CN")
    assert chinese["detail"] == "数据源不能指向 169.254.169.254"
    assert chinese["hint"].endswith("在 SLUICE_SOURCE_NETWORKS_DENIED 中")
    why = Sentence("the host name '%(host)s' is not known", host="db")
    job = Job.objects.create(
        kind="test",
        subject="shop",
        subject_id=str(shop.pk),
        error_message=why,
        error_hint="check the name servers of this machine",
    )
    shown = admin("GET", f"jobs/{job.pk}", Accept_Language="zh-CN")
    error = shown.json()["error"]
    assert error["message"] == "找不到主机名“db”"
    assert error["hint"] == "请检查本机的域名服务器"
    assert shown["Content-Language"] == "zh-hans"
    assert admin("GET", f"jobs/{job.pk}").json()["error"]["message"] == str(why)


@pytest.mark.parametrize(
    ("asked", "title", "said"),
    [
        (("POST", "datasources", {"colour": 1}), "请求有误", "未知字段：colour"),
        (("GET", "tables?colour=1"), "请求有误", "未知查询参数：colour"),
        (("GET", "colours"), "不存在", "/api/v1/colours 不存在"),
        (("GET", "jobs/00000000-0000-0000-0000-000000000000"), "不存在", "不存在"),
        (("DELETE", "datasources"), "不允许此方法", ""),
        (
            ("POST", "grants", {"principal": "user:ann", "on": "lake"}),
            "请求有误",
            "只能",
        ),
    ],
)
def test_problems_are_in_the_language_that_a_request_accepts(admin, asked, title, said):
    shown = admin(*asked, Accept_Language="zh-CN").json()
    assert shown["title"] == title
    assert said in shown["detail"], shown
    assert admin(*asked).json()["detail"].isascii()


def test_a_later_kind_answers_501_whatever_else_is_missing(admin):
    problem(admin("POST", "datasources", {"kind": "hana"}), 501, "not_yet")


def test_names_differ_by_more_than_case(admin):
    assert admin("POST", "datasources", new_source()).status_code == 201
    again = admin("POST", "datasources", new_source(name="CRM"))
    problem(again, 409, "name_taken")


def test_a_stored_password_is_not_sent_elsewhere(admin):
    admin("POST", "datasources", new_source())
    moved = admin("PATCH", "datasources/crm", {"host": "evil.example"})
    problem(moved, 400, "password_required")
    both = {"host": "other.example", "password": "another-secret"}
    assert admin("PATCH", "datasources/crm", both).status_code == 200


@pytest.mark.parametrize(
    ("before", "after", "is_weaker"),
    [
        ("verify", "require", True),
        ("require", "off", True),
        ("off", "require", False),
        ("require", "verify", False),
        ("require", "require", False),
    ],
)
def test_a_stored_password_is_not_sent_less_protected(admin, before, after, is_weaker):
    admin("POST", "datasources", new_source(tls=before))
    alone = admin("PATCH", "datasources/crm", {"tls": after})
    if not is_weaker:
        assert alone.status_code == 200
        return
    problem(alone, 400, "password_required")
    assert Datasource.objects.get(name="crm").tls == before
    again = {"tls": after, "password": "another-secret"}
    assert admin("PATCH", "datasources/crm", again).status_code == 200


def test_a_datasource_in_use_is_not_deleted(admin, shop, monkeypatch):
    monkeypatch.setattr(
        extensions.registered, "blockers", [lambda _: ["public.orders"]]
    )
    body = problem(admin("DELETE", "datasources/shop"), 409, "in_use")
    assert "public.orders" in body["hint"]
    assert Table.objects.filter(database__datasource=shop).exists()


def test_the_lake_can_be_neither_changed_nor_tested(admin, lake_orders):
    for method, path, body in [
        ("PATCH", "datasources/lake", {"host": "x"}),
        ("DELETE", "datasources/lake", None),
        ("POST", "datasources/lake:discover", None),
    ]:
        problem(admin(method, path, body), 400, "lake_is_fixed")


def test_verbs_start_jobs(admin, shop):
    for verb in ["test", "discover"]:
        reply = admin("POST", f"datasources/shop:{verb}")
        assert reply.status_code == 202, reply.content
        body = reply.json()
        assert reply["Location"] == f"/api/v1/jobs/{body['id']}"
        assert {
            "id", "kind", "subject", "state", "progress", "reason", "error", "attempts",
            "created_at", "started_at", "finished_at",
        } <= set(body)  # fmt: skip
        assert Job.objects.filter(pk=body["id"]).exists()
    problem(admin("POST", "datasources/shop:frobnicate"), 404, "not_found")


def test_a_job_carries_the_id_of_its_request_into_rows_and_logs(admin, shop, caplog):
    caplog.set_level("INFO", logger="sluice.states")
    reply = admin("POST", "datasources/shop:test", X_Request_ID="req-4711")
    job = Job.objects.get(pk=reply.json()["id"])
    assert job.request_id == "req-4711"
    moves = [r for r in caplog.records if getattr(r, "job_id", "") == str(job.pk)]
    assert moves
    assert {r.request_id for r in moves} == {"req-4711"}


def test_kinds_have_schemas(admin):
    items = {k["kind"]: k for k in admin("GET", "datasources/kinds").json()["items"]}
    schema = items["postgresql"]["schema"]
    assert schema["properties"]["password"]["writeOnly"] is True
    assert "max_parallel_reads" in schema["properties"]["options"]["properties"]
    assert "database" not in items["mariadb"]["schema"]["required"]
    assert "oracle" not in items


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_server_whose_databases_are_all_read(admin, kind):
    body = new_source(kind=kind)
    del body["database"], body["port"]
    reply = admin("POST", "datasources", body)
    assert reply.status_code == 201, reply.json()
    assert (reply.json()["port"], reply.json()["database"]) == (3306, "")
    chosen = {"database": "shop", "password": "p"}
    assert admin("PATCH", "datasources/crm", chosen).json()["database"] == "shop"
    none = {"database": "", "password": "p"}
    assert admin("PATCH", "datasources/crm", none).json()["database"] == ""


# ------------------------------------------------------------- idempotency
def test_a_repeated_post_changes_nothing(admin):
    first = admin("POST", "datasources", new_source(), Idempotency_Key="k1")
    again = admin("POST", "datasources", new_source(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again["Location"] == first["Location"]
    assert again["Idempotency-Replayed"] == "true"
    other = admin("POST", "datasources", new_source(name="x"), Idempotency_Key="k1")
    problem(other, 422, "idempotency_key_reused")
    elsewhere = admin("POST", "tokens", {"name": "t"}, Idempotency_Key="k1")
    problem(elsewhere, 422, "idempotency_key_reused")


def test_of_one_user_so_many_replies_are_kept(admin, monkeypatch):
    monkeypatch.setattr(idempotency, "MOST_OF_ONE", 2)
    for number in range(4):
        token = {"name": f"t{number}"}
        admin("POST", "tokens", token, Idempotency_Key=f"k{number}")
    kept = IdempotencyKey.objects.values_list("key", flat=True)
    assert set(kept) == {"k2", "k3"}


def test_a_refusal_is_kept_too_and_leaves_nothing(admin):
    bad = new_source(name="lake")
    first = admin("POST", "datasources", bad, Idempotency_Key="k2")
    again = admin("POST", "datasources", bad, Idempotency_Key="k2")
    assert first.status_code == again.status_code == 400
    assert first.json()["code"] == again.json()["code"] == "reserved_name"
    assert again["Content-Type"] == "application/problem+json"


def test_a_repeated_reply_is_in_the_language_that_is_asked_for(admin):
    def refused(language: str, key: str):
        bad = new_source(name="lake")
        reply = admin(
            *("POST", "datasources", bad), Idempotency_Key=key, Accept_Language=language
        )
        return reply["Content-Language"], reply.json() | {"request_id": ""}

    fresh = {language: refused(language, language) for language in ("en", "zh-CN")}
    assert fresh["en"][1]["detail"] != fresh["zh-CN"][1]["detail"]
    for key in fresh:
        for language, reply in fresh.items():
            assert refused(language, key) == reply, (key, language)


def test_a_token_made_twice_is_one_token_and_not_stored_in_clear(admin):
    first = admin("POST", "tokens", {"name": "ci"}, Idempotency_Key="k3").json()
    again = admin("POST", "tokens", {"name": "ci"}, Idempotency_Key="k3").json()
    assert first["token"] == again["token"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT t::text FROM catalog_idempotencykey t")
        kept = "".join(row[0] for row in cursor.fetchall())
    # a secret may have underscores of its own
    assert first["token"].split("_", 2)[2] not in kept


def test_a_failure_of_ours_is_not_kept(admin, monkeypatch):
    import catalog.datasources as service

    real = service.audit.record

    def fail(*_, **__):
        raise RuntimeError("planted")

    monkeypatch.setattr(service.audit, "record", fail)
    reply = admin("POST", "datasources", new_source(), Idempotency_Key="k4")
    body = problem(reply, 500, "internal_error")
    assert "planted" not in json.dumps(body)
    assert not Datasource.objects.filter(name="crm").exists()
    monkeypatch.setattr(service.audit, "record", real)
    again = admin("POST", "datasources", new_source(), Idempotency_Key="k4")
    assert again.status_code == 201


def test_keys_belong_to_their_user(admin, person):
    other = person("eve", is_admin=True)
    admin("POST", "datasources", new_source(), Idempotency_Key="k5")
    mine = other("POST", "datasources", new_source(name="mine"), Idempotency_Key="k5")
    assert mine.status_code == 201


# ------------------------------------------------------------- secrets
def test_a_secret_is_in_no_reply_log_or_row(admin, caplog):
    caplog.set_level("DEBUG")
    replies = [
        admin("POST", "datasources", new_source()),
        admin("GET", "datasources/crm"),
        admin("GET", "datasources"),
        admin("PATCH", "datasources/crm", {"password": CANARY + "2"}),
        admin("POST", "datasources", new_source(port="x")),
        admin("POST", "datasources:odd", new_source()),
        admin("GET", "audit"),
    ]
    for reply in replies:
        assert CANARY not in reply.content.decode()
    assert CANARY not in caplog.text
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            assert CANARY not in "".join(row[0] for row in cursor.fetchall()), table
    row = Datasource.objects.get(name="crm")
    assert password_of(row) == CANARY + "2"


@pytest.mark.django_db(transaction=True)
def test_twins_at_the_same_moment_have_one_effect(admin):
    """Both ask before either has an answer; the second waits and gets the first's."""

    def ask(_: int) -> tuple[int, str]:
        reply = admin("POST", "tokens", {"name": "twin"}, Idempotency_Key="same")
        return reply.status_code, reply.json().get("token")

    answers = at_once(ask, times=4)
    assert {status for status, _ in answers} == {201}
    assert len({token for _, token in answers}) == 1
    assert ApiToken.objects.filter(name="twin").count() == 1


def test_a_lost_database_is_a_problem_and_not_a_page(admin, monkeypatch):
    def lost(*_, **__):
        raise OperationalError("connection to server at 10.1.2.3 failed")

    monkeypatch.setattr("catalog.api.authentication.prove_bearer", lost)
    reply = admin("GET", "tables")
    body = problem(reply, 503, "database_unavailable")
    assert "10.1.2.3" not in json.dumps(body)
    assert reply["Retry-After"]
