"""Which keys of OpenSession and SET pass, which are refused, which mean nothing."""

from __future__ import annotations

import pytest

from core.errors import AccessDenied, InvalidRequest
from gateway.settable import require_settable, session_settings, statement_settings


@pytest.mark.parametrize(
    ("configuration", "engine", "database"),
    [
        ({}, {}, ""),
        ({"use:database": "shop"}, {}, "shop"),
        ({"use:database": "lake.shop"}, {}, "shop"),
        ({"use:database": "Spark_Catalog.shop"}, {}, "shop"),
        ({"use:database": "other.shop"}, {}, "other.shop"),
        ({"use:database": "lake"}, {}, "lake"),
        (
            {"set:hiveconf:spark.sql.ansi.enabled": "true"},
            {"set:hiveconf:spark.sql.ansi.enabled": "true"},
            "",
        ),
        (
            {"set:hivevar:spark.sql.ansi.enabled": "true"},
            {"set:hiveconf:spark.sql.ansi.enabled": "true"},
            "",
        ),
        ({"mapred.job.tracker": "local"}, {}, ""),
        ({"set:hiveconf:mapreduce.job.name": "x"}, {}, ""),
        (
            {"spark.sql.session.timeZone": "Asia/Shanghai", "sluice.label": "x"},
            {
                "set:hiveconf:spark.sql.session.timeZone": "Asia/Shanghai",
                "set:hiveconf:sluice.label": "x",
            },
            "",
        ),
        ({"set:hivevar:y": "1", "set:hivevar:day": "x" * 500}, {}, ""),
        (
            {"set:hiveconf:sluice.compat": "hive"},
            {"set:hiveconf:sluice.compat": "hive"},
            "",
        ),
        ({"hive.server2.proxy.user": "ann"}, {}, ""),
    ],
)
def test_what_is_left(configuration, engine, database):
    left = session_settings(configuration, username="ann")
    assert (left.engine, left.database) == (engine, database)


@pytest.mark.parametrize(
    "key",
    [
        "set:hiveconf:spark.sql.variable.substitute",
        "set:hiveconf:spark.sql.catalog.evil",
        "spark.sql.catalog.evil",
        "impala.resultset.cache.size",
        "sluice",
        "set:hivevar:spark.sql.runSQLOnFiles",
        "set:hiveconf:fs.s3a.secret.key",
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


def test_settings_of_one_statement_are_filtered_alike():
    given = {
        "spark.sql.ansi.enabled": "true",
        "set:hiveconf:sluice.label": "x",
        "mapred.job.queue.name": "etl",
    }
    left = statement_settings(given, username="ann")
    assert left == {"spark.sql.ansi.enabled": "true", "sluice.label": "x"}
    for key in ("spark.sql.catalog.evil", "use:database", "hive.server2.proxy.user"):
        with pytest.raises(AccessDenied):
            statement_settings({key: "shop"}, username="ann")


@pytest.mark.parametrize("prefix", ["", "set:hiveconf:", "set:hivevar:"])
@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("spark.sql.shuffle.partitions", "999", "20000000"),
        ("spark.sql.shuffle.partitions", "1", "0"),
        ("spark.sql.session.timeZone", "Europe/Berlin", "x" * 65),
        ("spark.sql.ansi.enabled", "TRUE", "maybe"),
        ("spark.sql.thriftServer.incrementalCollect", "true", "false"),
        ("spark.sql.thriftServer.queryTimeout", "60s", "-1"),
        ("sluice.compat", "pyhive", "impala"),
        ("sluice.hide_meta_columns", "true", ""),
        ("sluice.label", "x" * 200, "x" * 201),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(prefix, key, right, wrong):
    session_settings({prefix + key: right}, username="ann")
    with pytest.raises(AccessDenied, match="must be"):
        session_settings({prefix + key: wrong}, username="ann")


def test_what_a_client_needs_is_the_default_it_can_change():
    def compat(configuration):
        left = session_settings(configuration, username="ann", compat="pyhive")
        return left.engine["set:hiveconf:sluice.compat"]

    assert compat({}) == "pyhive"
    assert compat({"set:hiveconf:sluice.compat": "spark"}) == "spark"
