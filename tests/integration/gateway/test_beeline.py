"""beeline, Hive's own JDBC client, against the whole gateway with a fake engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from gateway.http_transport import HttpTransport
from tests.doubles.engine import FakeAnswer, answer_to
from tests.integration.gateway.conftest import PASSWORD

JARS = Path(pyspark.__file__).parent / "jars"


@pytest.fixture
def beeline(gateway, tmp_path):
    def run(
        *statements: str,
        password: str = PASSWORD,
        database: str = "default",
        port: int = 0,
        more: tuple[str, ...] = (),
    ):
        arguments = [
            "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Duser.home={tmp_path}",
            "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine",
            "-u", f"jdbc:hive2://127.0.0.1:{port or gateway.port}/{database}",
            "-n", "ann", "-p", password, "--outputformat=csv2", "--silent=false",
            "--showHeader=true", *more,
        ]  # fmt: skip
        script = tmp_path / "script.sql"
        script.write_text("".join(f"{one}\n" for one in statements))
        arguments += ["--force=true", "-f", str(script)]
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout, done.stderr

    return run


def test_statements_errors_and_metadata(beeline, gateway):
    def answers(sql: str) -> FakeAnswer:
        return FakeAnswer(seconds=1.5) if sql == "select slow" else answer_to(sql)

    gateway.engine.answers = answers
    out, err = beeline(
        "SELECT 41;",
        "SELECT * FROM range(3);",
        "select slow;",
        "!tables",
        "!primarykeys x",
        "!dbinfo",
        "SELEC 1;",
    )
    assert "41\n41\n" in out
    assert "id\n0\n1\n2\n" in out
    assert "TABLE_CAT" in out
    assert "PARSE_SYNTAX_ERROR" in err
    assert "state=42601" in err
    assert "org.apache.spark" not in err
    assert "Spark SQL" in out + err


@pytest.mark.long
def test_the_driver_proves_itself_once_over_http(beeline, gateway, monkeypatch):
    """Then by the cookie, for each of its requests."""
    proven, prove = [], HttpTransport._prove

    async def counted(self, name, secret, client):
        proven.append(name)
        return await prove(self, name, secret, client)

    monkeypatch.setattr(HttpTransport, "_prove", counted)
    out, err = beeline(
        "SELECT 41;",
        "SELECT * FROM range(3);",
        "!tables",
        "SELEC 1;",
        port=gateway.http_port,
        database="default;transportMode=http;httpPath=cliservice",
    )
    assert "41\n41\n" in out
    assert "id\n0\n1\n2\n" in out
    assert "TABLE_CAT" in out
    assert "state=42601" in err
    assert proven == ["ann"]
    assert list(gateway.gateway.services.sessions) == []


def test_a_wrong_password_is_said_so(beeline, gateway):
    out, err = beeline("SELECT 1", password="wrong")
    assert "Error validating the login" in out + err
    assert gateway.engine.journal == []


def test_why_a_session_is_refused_is_said_and_variables_are_taken(beeline, gateway):
    out, err = beeline("SELECT 41;", more=("--hivevar", "day=2024-01-01"))
    assert "41\n41\n" in out
    far_too_many = "default?spark.sql.shuffle.partitions=20000000"
    out, err = beeline("SELECT 41;", database=far_too_many)
    assert "spark.sql.shuffle.partitions must be between 1 and 999" in out + err
    assert "begin 0, end -1" not in out + err
