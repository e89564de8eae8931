"""Dotted names, search patterns, hosts and kinds: the text that people send."""

from __future__ import annotations

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from catalog import like, networks
from catalog.names import check_datasource_name, join_name, split_name, split_table_name
from catalog.sources.kinds import checked_options, json_schema
from catalog.sources.registry import LATER, kind_named
from core.errors import InvalidRequest

DENIED = ["169.254.0.0/16", "fe80::/10", "0.0.0.0/8"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b``c`", ("a", "b`c")),
        ("订单.`中 文`", ("订单", "中 文")),
        ("a.b/c", ("a", "b/c")),
    ],
)
def test_names_are_split_at_unquoted_dots(text, parts):
    assert split_name(text) == parts


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "``", "`a`b"]
)
def test_malformed_names_are_refused(text):
    with pytest.raises(InvalidRequest):
        split_name(text)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_joining_and_splitting_are_inverse(parts):
    assert split_name(join_name(*parts)) == tuple(parts)


def test_two_parts_mean_the_lake():
    assert split_table_name("shop.orders") == ("lake", "shop", "orders")
    for text in ["orders", "a.b.c.d"]:
        with pytest.raises(InvalidRequest):
            split_table_name(text)


@pytest.mark.parametrize("name", ["shop", "Shop-2", "s_1", "a" * 63])
def test_good_datasource_names(name):
    assert check_datasource_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "lake",
        "LAKE",
        "default",
        "spark_catalog",
        "system",
        "session",
        "global_temp",
        "",
        "1a",
        "a b",
        "a.b",
        "a/b",
        "a:b",
        "ä",
        "a" * 64,
        "a\n",
        "`a`",
    ],
)
def test_bad_datasource_names(name):
    with pytest.raises(InvalidRequest):
        check_datasource_name(name)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("or%", "orders", "xor"),
        ("o_ders", "orders", "oders"),
        ("a\\_b", "a_b", "axb"),
        ("a\\%", "a%", "ab"),
        ("*", "anything", None),
        (None, "anything", None),
        ("", "anything", None),
        ("ord*", "orders", "xord"),
        ("a.b", "a.b", "axb"),
        ("OR%", "orders", "xor"),
        ("a\\", "a\\", "a"),
    ],
)
def test_search_patterns(pattern, yes, no):
    matches = like.matcher(pattern)
    assert matches(yes)
    assert no is None or not matches(no)


@given(st.text())
def test_an_escaped_name_matches_itself_only(name):
    matches = like.matcher(like.escaped(name) or "x")
    if name:
        assert matches(name)
        assert not matches(name + "x")


@pytest.mark.parametrize(
    "host", ["db", "db.example.com", "127.0.0.1", "10.0.0.7", "::1", "[::1]", "a_b.c"]
)
def test_good_hosts(host):
    assert networks.check_host(host, DENIED)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::1",
        "fe80::1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "::169.254.169.254",
        "::",
        "[::]",
        "0.0.0.0",
        "224.0.0.1",
        "ff02::1",
        "0xA9FEA9FE",
        "2852039166",
        "127.1",
        "017700001",
        "",
        " ",
        "a b",
        "db:5432",
        "db/x",
        "db?x=1",
        "-a",
        "a..b",
        "u@h",
        "a\n",
        "fe80::1%lo",
        "a" * 254,
        "h#x",
        "ключ..",
        "[::1",
    ],
)
def test_bad_hosts(host):
    with pytest.raises(InvalidRequest):
        networks.check_host(host, DENIED)


def test_a_resolved_address_is_checked_again():
    networks.require_allowed("10.1.2.3", DENIED)
    with pytest.raises(InvalidRequest):
        networks.require_allowed("fe80::1%eth0", DENIED)


@pytest.mark.parametrize("host", ["::", "fd00:ec2::254", "100.100.100.200"])
def test_what_is_denied_unless_somebody_says_otherwise(host):
    with pytest.raises(InvalidRequest):
        networks.check_host(host, settings.SLUICE_SOURCE_NETWORKS_DENIED)
    assert networks.check_host("::1", settings.SLUICE_SOURCE_NETWORKS_DENIED)


@pytest.mark.parametrize(
    "address", ["64:ff9b:1::a00:1", "::10.0.0.1", "::ffff:10.0.0.1"]
)
def test_messages_go_to_the_internet_in_every_form(address):
    with pytest.raises(InvalidRequest):
        networks.require_public(address, allowed=[], denied=[])


def test_kinds_of_later_releases_are_known():
    ports = {"postgresql": 5432, "mariadb": 3306, "mysql": 3306}
    assert {name: kind_named(name).default_port for name in ports} == ports
    for name in LATER:
        with pytest.raises(InvalidRequest) as failure:
            kind_named(name)
        assert failure.value.code == "not_yet"
        assert "come with a later release" in str(failure.value)
    with pytest.raises(InvalidRequest) as failure:
        kind_named("dbase")
    assert failure.value.code == "unknown_kind"


def test_options_get_defaults_and_all_faults_are_named():
    kind = kind_named("postgresql")
    values = checked_options(kind, {"max_parallel_reads": 4})
    assert values["max_parallel_reads"] == 4
    assert values["max_rows_per_second"] == 0
    with pytest.raises(InvalidRequest) as failure:
        checked_options(
            kind, {"jdbcUrl": "x", "max_parallel_reads": 0, "include_databases": [""]}
        )
    pointers = {e["pointer"] for e in failure.value.facts["errors"]}
    assert pointers == {
        "/options/jdbcUrl",
        "/options/max_parallel_reads",
        "/options/include_databases",
    }


@pytest.mark.parametrize(
    ("kind", "needs_one"), [("postgresql", True), ("mariadb", False), ("mysql", False)]
)
def test_a_server_of_many_databases_needs_none_named(kind, needs_one):
    schema = json_schema(kind_named(kind))
    assert ("database" in schema["required"]) is needs_one
    assert "database" in schema["properties"]
    assert schema["properties"]["port"]["default"] == kind_named(kind).default_port


def test_every_option_is_in_the_schema():
    kind = kind_named("postgresql")
    shown = json_schema(kind)["properties"]["options"]["properties"]
    assert set(shown) == {option.name for option in kind.options}
