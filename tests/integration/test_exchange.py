"""Export and import of what people decided, on a real PostgreSQL: there and back."""

from __future__ import annotations

import io
import stat

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.utils import timezone

from catalog.access import grants, rules, users
from catalog.datasources import (
    DatasourceChange,
    NewDatasource,
    create_datasource,
    update_datasource,
)
from catalog.labels import Labels, label_tables
from catalog.models import (
    AccessRule,
    Database,
    Datasource,
    ExternalIdentity,
    Grant,
    Table,
)
from catalog.secrets import password_of
from core.models import Job
from ingest.models import Onboarding, Pipeline, Policy
from ingest.pipelines import deferred_onboardings
from ingest.pipelines.onboarding import start_onboarding
from ingest.pipelines.policies.store import change_policy, change_table_policy
from ingest.pipelines.requests import parse_request
from tests.integration.ingest.world import ANN, COLUMNS, make_source, make_tables

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
KEYLESS = [c if c[0] != "id" else (*c[:4], 0) for c in COLUMNS]


@pytest.fixture(autouse=True)
def _small(settings, tmp_path):
    settings.SLUICE_LAKE_URI = str(tmp_path / "lake")
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"


def exported() -> str:
    out = io.StringIO()
    call_command("export", "-", stdout=out, stderr=io.StringIO())
    return out.getvalue()


def imported(tmp_path, text: str, *options: str) -> tuple[int, str]:
    path = tmp_path / "instance.yaml"
    path.write_text(text)
    out = io.StringIO()
    with pytest.raises(SystemExit) as done:
        call_command("import", str(path), *options, stdout=out, stderr=out)
    return int(done.value.code), out.getvalue()


def onboard(**body):
    asked = {"datasource": "shop", "capture": "timestamp", **body}
    return start_onboarding(parse_request(asked), principal=ANN)


def discovered(source: Datasource, *names: str, columns=COLUMNS) -> None:
    make_tables(source, list(names), columns)
    source.discovered_at = timezone.now()
    source.save()


RULES = (
    rules.Stated(
        "row_filter", "lake.shop.orders", ["everyone"], ["group:no"], None, "no = 'on'"
    ),
    rules.Stated(
        "mask", "lake.shop.orders.name", ["group:bi", "user:ann"], ["user:sue"], "null"
    ),
)


@pytest.fixture
def instance(db) -> None:
    """One of everything: names that YAML could misread among them."""
    users.create_user("root", PASSWORD, is_admin=True, by="x")
    users.create_user("ann", PASSWORD, groups=["bi", "no"], by="x")
    users.create_user("old", PASSWORD, by="x")
    users.update_user("old", users.UserChange(is_active=False), by="x")
    sue = users.create_user("sue", None, by="x")
    ExternalIdentity.objects.create(
        user=sue, provider="ldap", subject="uuid-1", checked_at=timezone.now()
    )
    source = make_source()
    discovered(source, "orders", "people", "2026-01-01", "yes")
    make_tables(source, ["log"], KEYLESS)
    row = onboard(
        include=["public.*"],
        exclude=["public.yes"],
        tables={"public.log": {"record_key": ["id", "name"]}},
        schedule={"every_seconds": 5},
        approve=True,
    )
    pipeline = row.tables.get(source_table__name="orders")
    change_table_policy(
        pipeline, {"schedule": {"cron": "30 2 * * MON", "timezone": "Europe/Berlin"}}
    )
    onboard(
        include=["public.yes"],
        capture="snapshot",
        target_database="elsewhere",
        tables={"public.yes": {"record_key": "row_hash", "exclude_columns": ["name"]}},
    )
    change_policy(source, None, {"lag_seconds": 9})
    change_policy(source, Database.objects.get(datasource=source), {"compact_after": 3})
    for role, on in [("analyst", "lake"), ("select", "lake.shop"), ("editor", "shop")]:
        grants.grant(principal="group:bi", privilege=role, on=on, by="x")
    grants.grant(principal="user:ann", privilege="viewer", on="shop.`a.b`", by="x")
    grants.grant(
        principal="user:ann",
        privilege="select",
        on="lake.shop.orders",
        columns=["id", "no"],
        by="x",
    )
    for stated in RULES:
        rules.save_rule(stated, by="x", allow_unknown=True)


def empty_the_house() -> None:
    for model in [
        AccessRule,
        Pipeline,
        Onboarding,
        Policy,
        Job,
        Grant,
        Table,
        Datasource,
    ]:
        model.objects.all().delete()
    User.objects.all().delete()
    Group.objects.all().delete()


def test_there_and_back_is_the_same_text(instance, tmp_path):
    text = exported()
    assert "canary" not in text
    assert PASSWORD not in text
    empty_the_house()
    code, said = imported(tmp_path, text)
    assert code == 0, said
    assert exported() == text
    assert "datasource shop needs_password" in said
    assert "wait until shop is discovered" in said
    assert ExternalIdentity.objects.get(user__username="sue").subject == "uuid-1"
    assert "user ann needs a password" in said
    assert "user sue needs" not in said
    assert not Pipeline.objects.exists()


def test_what_waited_is_proposed_after_the_discovery(instance, tmp_path):
    text = exported()
    names = dict(Pipeline.objects.values_list("source_table__name", "plan__name"))
    empty_the_house()
    imported(tmp_path, text)
    deferred_onboardings.plan_waiting()
    assert not Pipeline.objects.exists()
    rows = set(Onboarding.objects.values_list("pk", flat=True))
    source = Datasource.objects.get(name="shop")
    discovered(source, "orders", "people", "2026-01-01", "yes")
    make_tables(source, ["log"], KEYLESS)
    assert deferred_onboardings.plan_waiting() == len(rows)
    assert deferred_onboardings.plan_waiting() == 0
    assert set(Onboarding.objects.values_list("pk", flat=True)) == rows
    assert {f.state for f in Pipeline.objects.all()} == {"PROPOSED"}
    again = dict(Pipeline.objects.values_list("source_table__name", "plan__name"))
    assert again == names
    assert exported() == text
    assert not Job.objects.exists()
    assert imported(tmp_path, text, "--check")[0] == 0


def test_a_second_import_changes_nothing(instance, tmp_path):
    text = exported()
    code, said = imported(tmp_path, text, "--check")
    assert code == 0, said
    lines = [line for line in said.splitlines() if not line.startswith("next:")]
    assert {line.split()[0] for line in lines} == {"unchanged", "would"}
    assert imported(tmp_path, text)[0] == 0
    assert exported() == text


CHANGES = """
sluice: 1
users:
- {name: ann, groups: [ops]}
- {name: zoe, password_env: ZOES}
datasources:
- {name: shop, options: {max_parallel_reads: 4}}
- {name: crm, kind: postgresql, host: 127.0.0.1, database: crm, username: u, password_env: CRM}
policies:
- {on: shop, lag_seconds: 1}
onboardings:
- datasource: shop
  include: [public.orders, public.people]
  tables: {public.people: {buckets: 7}}
- datasource: crm
  include: ["sales.*"]
grants:
- {principal: user:zoe, role: viewer, on: crm}
"""


def test_a_dry_run_tells_all_and_does_nothing(instance, tmp_path, monkeypatch):
    monkeypatch.setenv("CRM", "secret of crm")
    monkeypatch.setenv("ZOES", PASSWORD)
    before = exported()
    text = CHANGES.replace("{name: shop,", "{name: shop, kind: postgresql,")
    code, plan = imported(tmp_path, text, "--dry-run")
    assert code == 0, plan
    assert exported() == before
    assert imported(tmp_path, text, "--check")[0] == 1
    code, done = imported(tmp_path, text)
    assert code == 0
    first = plan.partition("would be")[0]
    assert first == done.partition("done")[0]
    # it is taken back: nobody will find an onboarding of that number
    assert ("(onboarding " in plan, "(onboarding " in done) == (False, True)
    for line in [
        "change     user ann",
        "create     user zoe",
        "change     datasource shop",
        "    options.max_parallel_reads: 2 -> 4",
        "create     datasource crm",
        "change     policy shop",
        "unchanged  onboarding shop.public.orders",
        "skip       onboarding shop.public.people (it is APPROVED",
        "create     onboarding of crm.sales.* (waits",
        "create     grant viewer on crm to user:zoe",
        "extra      user root",
    ]:
        assert line in done, done
    assert "secret of crm" not in done + plan
    assert password_of(Datasource.objects.get(name="crm")) == "secret of crm"
    assert User.objects.get(username="zoe").check_password(PASSWORD)
    again = imported(tmp_path, text)[1]
    assert "create " not in again
    assert "change " not in again, again


def test_null_takes_a_setting_of_a_policy_back(instance, tmp_path):
    change_policy(Datasource.objects.get(name="shop"), None, {"compact_after": 5})
    text = """
sluice: 1
policies:
- {on: shop, lag_seconds: null, schedule: null}
- {on: shop.other, schedule: null}
"""
    code, said = imported(tmp_path, text)
    assert code == 0, said
    assert "lag_seconds: 9.0 -> None" in said
    assert "unchanged  policy shop.other" in said
    row = Policy.objects.get(datasource__name="shop", database=None)
    assert row.given == {"compact_after": 5}
    assert "done: 2 unchanged, 1 extra" in imported(tmp_path, text)[1]


def test_choices_of_a_proposed_table_are_changed(instance, tmp_path):
    text = exported().replace("lake: elsewhere.yes", "lake: other.certainly")
    code, said = imported(tmp_path, text)
    assert code == 0, said
    assert "lake: 'elsewhere.yes' -> 'other.certainly'" in said
    pipeline = Pipeline.objects.get(source_table__name="yes")
    steps = {step["step"]: step for step in pipeline.plan["steps"]}
    assert steps["CreateTable"]["path"].endswith("/other/certainly")
    assert (pipeline.state, exported()) == ("PROPOSED", text)


REFUSALS = [
    ("sluice: 1\ngrants:\n- {principal: group:x, role: king, on: lake}", "'king' is not a role"),
    ("sluice: 1\ndatasources:\n- name: new\n  kind: postgresql\n  host: 169.254.169.254\n  database: d\n  username: u", "line 5: /datasources/0/host"),
    ("sluice: 1\ndatasources:\n- {name: shop, kind: postgresql, host: evil.example}", "password"),
    ("sluice: 1\ndatasources:\n- {name: shop, kind: postgresql, password_env: NOT_THERE}", "no variable NOT_THERE"),
    ("sluice: 1\nonboardings:\n- datasource: shop\n  tables:\n    public.nope: {}", "line 5: /onboardings/0/tables/public.nope"),
    ("sluice: 1\nonboardings:\n- datasource: shop\n  include: [public.nope]", "line 4: /onboardings/0/include/0"),
    ("sluice: 1\nonboardings:\n- datasource: shop\n  include: ['nope.*']", "matches no table of shop"),
    ("sluice: 1\nonboardings:\n- {datasource: none, include: [a.b]}", "there is no datasource 'none'"),
    ("sluice: 1\npolicies:\n- on: shop\n  lag_seconds: soon", "line 4: /policies/0/lag_seconds"),
    ("sluice: 1\nusers:\n- {name: root, is_admin: false}", "last active administrator"),
    ("sluice: 1\nusers:\n- {name: zoe, password_env: WEAK}", "line 3: /users/0/password_env"),
    ("sluice: 1\ndatasources:\n- {name: SHOP, kind: postgresql, host: 127.0.0.1, database: d, username: u}", "datasource SHOP: there is already a datasource 'shop'"),
]  # fmt: skip


def test_refusals_name_line_object_and_remedy(instance, tmp_path, monkeypatch):
    monkeypatch.setenv("WEAK", "weak")
    before = exported()
    for text, said in REFUSALS:
        code, told = imported(tmp_path, text)
        assert (code, said in told) == (2, True), (said, told)
        assert "nothing was changed" in told
        assert exported() == before


def test_one_fault_takes_everything_back(instance, tmp_path):
    before = exported()
    text = (
        "sluice: 1\nusers: [{name: first}]\n"
        "grants: [{principal: user:nobody, role: viewer, on: lake}]"
    )
    code, told = imported(tmp_path, text)
    assert code == 2
    assert "grant viewer on lake to user:nobody: there is no user 'nobody'" in told
    assert exported() == before


def test_the_file_is_its_owners_only(db, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("old")
    path.chmod(0o666)
    call_command("export", str(path), stderr=io.StringIO())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("sluice: 1\n")
    assert [p.name for p in tmp_path.iterdir()] == ["x.yaml"]


def test_sources_of_any_options_keep_them(db, tmp_path):
    new = NewDatasource(
        name="crm",
        kind="postgresql",
        host="127.0.0.1",
        database="no",
        username="1e3",
        options={"include_databases": ["a", "yes"], "max_parallel_reads": 3},
    )
    create_datasource(new, by="x")
    text = exported()
    Datasource.objects.all().delete()
    assert imported(tmp_path, text)[0] == 0
    row = Datasource.objects.get(name="crm")
    assert (row.database, row.username) == ("no", "1e3")
    assert row.options["include_databases"] == ["a", "yes"]
    assert exported() == text


def test_a_pattern_that_waits_is_changed_in_place(db, tmp_path):
    make_source()
    text = """
sluice: 1
onboardings:
- {datasource: shop, include: [public.*, other.*], schedule: {every_seconds: 5}}
"""
    assert imported(tmp_path, text)[0] == 0
    text = text.replace("5", "10")
    code, said = imported(tmp_path, text)
    assert code == 0, said
    assert imported(tmp_path, text, "--check")[0] == 0
    waiting = [row.request for row in Onboarding.objects.all()]
    assert sorted(name for asked in waiting for name in asked["include"]) == [
        "other.*", "public.*",
    ]  # fmt: skip
    assert {asked["policy"]["schedule"]["every_seconds"] for asked in waiting} == {10}


def test_a_choice_that_is_not_stated_stays_while_it_waits(db, tmp_path):
    make_source()
    text = """
sluice: 1
onboardings:
- datasource: shop
  capture: snapshot
  tables: {public.orders: {record_key: [id], buckets: 4}}
"""
    assert imported(tmp_path, text)[0] == 0
    text = text.replace("  capture: snapshot\n", "").replace("record_key: [id], ", "")
    text = text.replace("4", "8")
    code, said = imported(tmp_path, text)
    assert code == 0, said
    asked = Onboarding.objects.get().request
    assert asked["tables"]["public.orders"] == {"record_key": ["id"], "buckets": 8}
    assert asked["capture"] == "snapshot"


@pytest.mark.parametrize(
    "section",
    [
        "users: [{name: ann, identity: {provider: ldap, subject: uuid-1}},"
        " {name: bob, identity: {provider: ldap, subject: uuid-1}}]",
        f"policies: [{{on: shop.{'p' * 300}, lag_seconds: 4}}]",
    ],
)
def test_what_the_database_refuses_is_told_with_its_place(db, tmp_path, section):
    make_source()
    code, said = imported(tmp_path, f"sluice: 1\n{section}\n")
    assert code == 2, said
    assert "line 2" in said
    assert "nothing was changed" in said
    assert not User.objects.exists()


def test_owner_and_tags_go_there_and_back(instance, tmp_path) -> None:
    table = Table.objects.get(kind="lake", name="orders")
    label_tables([table.pk], Labels(owner="group:bi", tags=["daily"]), by="root")
    change = DatasourceChange(owner="user:ann", tags=["finance"])
    update_datasource("shop", change, by="root")
    text = exported()
    assert "owner: user:ann\n" in text
    assert "owner: group:bi\n" in text
    assert imported(tmp_path, text, "--check")[0] == 0
    label_tables([table.pk], Labels(owner="", tags=[]), by="root")
    Datasource.objects.update(owner="", tags=[])
    assert imported(tmp_path, text)[0] == 0
    table.refresh_from_db()
    assert (table.owner, table.tags) == ("group:bi", ["daily"])
    source = Datasource.objects.get(name="shop")
    assert (source.owner, source.tags) == ("user:ann", ["finance"])
    taken_back = text.replace("owner: user:ann", "owner: ''")
    assert imported(tmp_path, taken_back)[0] == 0
    source.refresh_from_db()
    assert source.owner == ""
    assert imported(tmp_path, taken_back, "--check")[0] == 0
