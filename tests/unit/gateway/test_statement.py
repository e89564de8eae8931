"""What the front reads from a statement's first words."""

from __future__ import annotations

import pytest

from gateway.statement import Kind, rule_of


@pytest.mark.parametrize(
    ("sql", "kind", "target", "has_result"),
    [
        ("SELECT 1", Kind.QUERY, "", True),
        ("  -- USE x\n select 1", Kind.QUERY, "", True),
        ("/* USE x */ with a as (select 1) select * from a", Kind.QUERY, "", True),
        ("USE shop", Kind.USE, "shop", False),
        ("use `my db` ;", Kind.USE, "my db", False),
        ("USE `a``b`", Kind.USE, "a`b", False),
        ("USE lake.shop", Kind.USE, "shop", False),
        ("USE DATABASE shop", Kind.USE, "shop", False),
        ("/* c */ -- d\nUSE Shop", Kind.USE, "shop", False),
        ("USE shop; DROP TABLE x", Kind.QUERY, "", False),
        ("use catalog x y", Kind.QUERY, "", False),
        ("used", Kind.QUERY, "", True),
        ("SET a.b=1", Kind.SET, "a.b", True),
        ("set spark.sql.ansi.enabled = true", Kind.SET, "spark.sql.ansi.enabled", True),
        ("set `sluice.label`=1", Kind.SET, "sluice.label", True),
        ("SET TIME ZONE 'UTC'", Kind.SET, "spark.sql.session.timeZone", True),
        ("set time zone local", Kind.SET, "spark.sql.session.timeZone", True),
        ("RESET sluice.label;", Kind.SET, "sluice.label", True),
        ("reset `sluice.label`", Kind.SET, "sluice.label", True),
        ("RESET", Kind.QUERY, "", True),
        ("SET", Kind.QUERY, "", True),
        ("SET -v", Kind.QUERY, "", True),
        ("", Kind.QUERY, "", True),
        ("/* never closed", Kind.QUERY, "", True),
    ],
)
def test_rule(sql, kind, target, has_result):
    rule = rule_of(sql)
    assert (rule.kind, rule.target) == (kind, target)
    assert rule.has_result_set is has_result


def test_the_catalog_of_use_is_kept_apart():
    assert rule_of("USE `Lake`.shop").catalog == "Lake"


def test_a_long_run_of_comments_is_read_in_linear_time():
    assert rule_of("/**/" * 20_000 + "USE x").kind is Kind.USE
