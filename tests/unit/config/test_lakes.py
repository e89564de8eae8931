"""Settings of the lake: its address, its store, its lock, and what start-up refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import checks
from config.lakes import lake_lock, lake_uri, object_store
from config.toolchain.paths import extras_of, jar_paths
from core.object_store import StoreAccess
from ingest.contract.job import LAKE_SECRET
from ingest.hosting import SecretBroker
from ingest.lake.hudi.identity import LOCK_PROVIDER, SHARED_LOCK_PROVIDER, TableIdentity
from ingest.lake.hudi.options import SharedLock, WriterFence, service_options
from ingest.maintenance.storage_check import store_problem

AWAY = StoreAccess("http://127.0.0.1:1", "r", "key", "hidden", path_style=True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/lake/", "/lake"),
        ("file:///lake", "/lake"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket", "s3://bucket"),
    ],
)
def test_addresses_of_lakes(
    text: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_LAKE_URI", text)
    assert lake_uri(Path("/home")) == wanted
    jars = [path.name for path in jar_paths(*extras_of(text))]
    assert any("hadoop-aws" in name for name in jars) == wanted.startswith("s3")


def test_a_store_needs_both_keys_and_a_right_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_S3_ACCESS_KEY", "key")
    assert object_store() is None
    monkeypatch.setenv("SLUICE_S3_SECRET_KEY", "hidden")
    found = object_store()
    assert found is not None
    assert not found.path_style
    monkeypatch.setenv("SLUICE_S3_ENDPOINT", "http://h:9000/")
    found = object_store()
    assert found is not None
    assert (found.address, found.path_style) == ("http://h:9000", True)
    for wrong in ("h:9000", "ftp://h", "http://user@h"):
        monkeypatch.setenv("SLUICE_S3_ENDPOINT", wrong)
        with pytest.raises(ImproperlyConfigured):
            object_store()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("zookeeper://a:2181", "a:2181/sluice"),
        ("zookeeper://a:2181,b:2181/x/y/", "a:2181,b:2181/x/y"),
        ("a:2181", None),
        ("zookeeper://a", None),
        ("zookeeper:///x", None),
    ],
)
def test_addresses_of_locks(
    text: str, wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_LAKE_LOCK", text)
    if wanted is not None:
        assert lake_lock() == wanted
        return
    with pytest.raises(ImproperlyConfigured):
        lake_lock()


@pytest.mark.parametrize(
    ("uri", "access", "wanted"),
    [
        ("/lake", None, set()),
        ("hdfs://n/lake", None, {"sluice.E010"}),
        ("lake", None, {"sluice.E010"}),
        ("s3://b/x", None, {"sluice.E011"}),
        ("s3://b/x", AWAY, set()),
        ("s3://b/x", StoreAccess("http://s.example", "r", "k", "s"), {"sluice.W002"}),
        ("s3://b/x", StoreAccess("", "r", "k", "s"), set()),
    ],
)
def test_what_start_up_says_of_a_lake(
    uri: str, access: StoreAccess | None, wanted: set[str], settings
) -> None:
    settings.SLUICE_LAKE_URI, settings.SLUICE_OBJECT_STORE = uri, access
    ours = {"sluice.E010", "sluice.E011", "sluice.W002"}
    assert {m.id for m in checks.check_settings(None)} & ours == wanted


def test_readiness_names_a_store_that_is_away(settings) -> None:
    settings.SLUICE_LAKE_URI, settings.SLUICE_OBJECT_STORE = "s3://b/x", AWAY
    assert "does not answer" in store_problem()
    settings.SLUICE_LAKE_URI = "/lake"
    assert store_problem() == ""


def test_a_driver_is_told_the_key_when_it_asks(settings) -> None:
    settings.SLUICE_OBJECT_STORE = AWAY
    desk = SecretBroker()
    desk.ask(LAKE_SECRET, "warm")
    ((answer, origin),) = desk.answered()
    assert origin == "warm"
    assert StoreAccess(**json.loads(answer.value)) == AWAY
    assert "hidden" not in repr(answer)
    settings.SLUICE_OBJECT_STORE = None
    desk.ask(LAKE_SECRET, "warm")
    ((answer, _),) = desk.answered()
    assert answer.outcome == "terminal"
    assert answer.error is not None
    assert answer.error.code == "unsupported_lake"


def test_the_lock_of_the_identity_is_the_lock_of_the_writer() -> None:
    identity = TableIdentity(("id",), 1)
    shared = SharedLock("a:1,b:1", "/sluice", "table-4")
    own, common = (
        service_options(identity, name="t", fence=WriterFence("/f", 1, lock))
        for lock in (None, shared)
    )
    assert own["hoodie.write.lock.provider"] == identity.lock_provider == LOCK_PROVIDER
    assert common["hoodie.write.lock.provider"] == SHARED_LOCK_PROVIDER
    assert common["hoodie.write.lock.zookeeper.url"] == "a:1,b:1"
    assert not [name for name in own if "zookeeper" in name]
