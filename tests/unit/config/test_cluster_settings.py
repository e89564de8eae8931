"""Masters as text, and when a cluster must have a secret."""

from __future__ import annotations

from typing import Any

import pytest

from config import cluster
from config.checks import check_settings


@pytest.mark.parametrize("text", ["local[2]", "local[*]", "spark://10.0.0.1:7077"])
def test_masters_that_are_taken(text: str) -> None:
    assert cluster.spark_master(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "local", "local[0]", "yarn", "spark://host", "spark://:7077", "k8s://x"],
)
def test_masters_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="spark://host:port"):
        cluster.spark_master(text)


@pytest.mark.parametrize(
    ("master", "door"), [("local[2]", ""), ("spark://a.b:7077", "http://a.b:8080")]
)
def test_the_web_door(master: str, door: str) -> None:
    assert cluster.web_door(master) == door


@pytest.mark.parametrize(
    ("master", "host", "leaves"),
    [
        ("local[2]", "10.0.0.1", False),
        ("spark://127.0.0.1:7077", "127.0.0.1", False),
        ("spark://localhost:7077", "::1", False),
        ("spark://127.0.0.1:7077", "10.0.0.1", True),
        ("spark://10.0.0.2:7077", "127.0.0.1", True),
        ("spark://master:7077", "127.0.0.1", True),
    ],
)
def test_what_leaves_the_machine(master: str, host: str, *, leaves: bool) -> None:
    assert cluster.leaves_the_machine(master, host) is leaves


def test_a_cluster_beyond_this_machine_wants_a_secret(settings: Any) -> None:
    settings.SLUICE_SPARK_MASTER = "spark://10.0.0.2:7077"
    settings.SLUICE_SPARK_SECRET = ""
    assert "sluice.E009" in {message.id for message in check_settings(None)}
    settings.SLUICE_SPARK_SECRET = "known to the cluster"
    assert "sluice.E009" not in {message.id for message in check_settings(None)}
