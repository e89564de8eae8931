"""Which keys of OpenSession and SET pass, which are refused, which mean nothing."""

from __future__ import annotations

import pytest

from core.errors import AccessDenied, InvalidRequest
from gateway.settable import require_settable, session_settings


@pytest.mark.parametrize(
    ("configuration", "engine", "own", "database"),
    [
        ({}, {}, {}, ""),
        ({"use:database": "shop"}, {}, {}, "shop"),
        (
            {"set:hiveconf:spark.sql.ansi.enabled": "true"},
            {"set:hiveconf:spark.sql.ansi.enabled": "true"},
            {},
            "",
        ),
        (
            {"set:hivevar:spark.sql.ansi.enabled": "true"},
            {"set:hiveconf:spark.sql.ansi.enabled": "true"},
            {},
            "",
        ),
        ({"mapred.job.tracker": "local"}, {}, {}, ""),
        ({"set:hiveconf:mapreduce.job.name": "x"}, {}, {}, ""),
        ({"spark.sql.catalog.evil": "x"}, {}, {}, ""),
        ({"set:hiveconf:sluice.compat": "hive"}, {}, {"sluice.compat": "hive"}, ""),
        ({"hive.server2.proxy.user": "ann"}, {}, {}, ""),
    ],
)
def test_what_is_left(configuration, engine, own, database):
    left = session_settings(configuration, username="ann")
    assert (left.engine, left.own, left.database) == (engine, own, database)


@pytest.mark.parametrize(
    "key",
    [
        "set:hiveconf:spark.sql.variable.substitute",
        "set:hiveconf:spark.sql.catalog.evil",
        "set:hivevar:spark.sql.runSQLOnFiles",
        "set:hiveconf:fs.s3a.secret.key",
        "set:hivevar:y",
        "set:system:user.home",
        "set:env:PATH",
        "hive.server2.proxy.user",
        "set:hiveconf:hive.server2.proxy.user",
    ],
)
def test_what_is_refused(key):
    with pytest.raises(AccessDenied):
        session_settings({key: "root"}, username="ann")


def test_an_empty_proxy_user_is_a_mistake():
    with pytest.raises(InvalidRequest):
        session_settings({"hive.server2.proxy.user": ""}, username="ann")


def test_the_refusal_names_key_and_way_out():
    with pytest.raises(AccessDenied) as raised:
        require_settable("spark.jars")
    assert "spark.jars" in raised.value.message
    assert "spark.sql.session.timeZone" in raised.value.hint
