"""Who may see one database of a source sees nothing of the others, wherever the
source itself is shown: its jobs, its onboardings, its own facts."""

from __future__ import annotations

import pytest
from django.test import Client

from catalog.access import grants
from catalog.models import Datasource
from core.models import Job, JobEvent, JobLog
from tests.integration.catalog.asking import problem
from tests.integration.catalog.conftest import *  # noqa: F403  the same people
from tests.integration.catalog.conftest import PASSWORD
from tests.integration.ingest.world import make_source, make_tables

pytestmark = pytest.mark.django_db

HIDDEN = "hidname"
PLAN = {"datasource": "shop", "capture": "snapshot"}


@pytest.fixture
def source(db) -> Datasource:
    source = make_source()
    make_tables(source, ["a", "b"], database="vis")
    make_tables(source, [HIDDEN], database=HIDDEN)
    source.options = {"include_databases": ["vis", HIDDEN], "max_parallel_reads": 2}
    source.table_count, source.test_result = 3, {"ok": False, "steps": [step()]}
    source.save()
    return source


def step() -> dict[str, object]:
    return {"name": "sample", "status": "failed", "message": f"{HIDDEN}.x was read",
            "hint": "", "raw": "", "seconds": 1.0}  # fmt: skip


@pytest.fixture(params=["discover", "test"])
def job(request, source) -> Job:
    job = Job.objects.create(
        kind=request.param,
        subject="shop",
        subject_id=str(source.pk),
        state="FAILED",
        reason=f"reads {HIDDEN}",
        error_code="no_privilege",
        error_message=f"may not read {HIDDEN}",
        error_hint=f"grant on {HIDDEN}",
        report={"steps": [step()], "warnings": [HIDDEN], "facts": {"x": HIDDEN}},
    )
    JobLog.objects.create(job=job, level="INFO", message=f"up to {HIDDEN}")
    move = {"event": "fail", "before": "RUNNING", "after": "FAILED", "actor": "x"}
    JobEvent.objects.create(job=job, reason=HIDDEN, **move)
    return job


@pytest.fixture
def narrow(ann):
    """Ann sees one of two databases, whatever else she may do there."""
    for on in ("shop.vis", "lake.shop_vis"):
        grants.grant(principal="user:ann", privilege="editor", on=on, by="root")
    return ann


def page(path: str, *, status: int = 200) -> str:
    client = Client()
    assert client.login(username="ann", password=PASSWORD)
    reply = client.get(path)
    assert reply.status_code == status, path
    return reply.content.decode()


def test_the_source_itself(source, narrow, admin) -> None:
    whole, seen = (who("GET", "datasources/shop").json() for who in (admin, narrow))
    assert HIDDEN in str(whole)
    assert (seen["options"], seen["table_count"], seen["test_result"]) == ({}, 2, None)
    assert seen in narrow("GET", "datasources").json()["items"]
    for path in ("/sources", "/sources/shop", "/sources/shop/work"):
        assert HIDDEN not in page(path), path


def test_jobs_on_the_source(job, narrow, admin) -> None:
    one = f"jobs/{job.pk}"
    for path in (one, f"{one}/logs", f"{one}/events"):
        assert HIDDEN in str(admin("GET", path, Accept="application/json").json())
    seen = narrow("GET", one).json()
    assert (seen["state"], seen["error"]["code"]) == ("FAILED", "no_privilege")
    assert HIDDEN not in str(seen)
    (listed,) = narrow("GET", "jobs").json()["items"]
    assert HIDDEN not in str(listed)
    for part in ("logs", "events"):
        for accept in ("application/json", "text/event-stream"):
            refused = narrow("GET", f"{one}/{part}", Accept=accept)
            assert refused.status_code in {403, 406}, part
            assert HIDDEN not in refused.content.decode()
    for path in ("/", "/jobs", f"/jobs/{job.pk}", f"/jobs/{job.pk}/live"):
        assert HIDDEN not in page(path), path
    page(f"/jobs/{job.pk}/log", status=403)


def test_who_may_see_all_of_the_source_sees_its_jobs(job, narrow) -> None:
    grants.grant(principal="user:ann", privilege="discover", on="shop", by="root")
    assert HIDDEN in str(narrow("GET", f"jobs/{job.pk}/logs").json())
    assert HIDDEN in page(f"/jobs/{job.pk}")
    assert HIDDEN in str(narrow("GET", "datasources/shop").json())


def test_onboardings_show_what_may_be_seen_of_them(source, narrow, admin) -> None:
    both = {
        **PLAN,
        "include": ["vis.a", f"{HIDDEN}.*"],
        "exclude": [f"{HIDDEN}.x*", "vis.b"],
        "target_database": HIDDEN,
        "defaults": {"cursor": [HIDDEN]},
    }
    one = admin("POST", "onboardings", both).json()["id"]
    seen = narrow("GET", f"onboardings/{one}").json()
    assert seen["request"]["include"] == ["vis.a"]
    assert seen["request"]["exclude"] == ["vis.b"]
    assert seen["request"]["target_database"] is None
    assert [table["source"] for table in seen["tables"]] == ["vis.a"]
    (listed,) = narrow("GET", "onboardings").json()["items"]
    assert listed["request"] == seen["request"]
    assert admin("GET", f"onboardings/{one}").json()["request"]["include"][1:]


@pytest.mark.parametrize("verb", ["approve", "discard"])
def test_an_onboarding_of_hidden_tables_is_not_there(
    source, narrow, admin, verb
) -> None:
    hidden = {**PLAN, "include": [f"{HIDDEN}.*"]}
    one = f"onboardings/{admin('POST', 'onboardings', hidden).json()['id']}"
    assert narrow("GET", "onboardings").json()["items"] == []
    problem(narrow("GET", one), 404, "onboarding_not_found")
    problem(narrow("POST", f"{one}:{verb}"), 404, "onboarding_not_found")
    page(f"/{one}", status=404)
    assert HIDDEN not in page("/sources/shop/pipeline")
