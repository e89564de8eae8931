"""dbt with its Spark adapter, which speaks through PyHive."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _checks import CONNECTION, run

PROJECT = """
name: compat
version: "1.0"
config-version: 2
profile: compat
"""
folder = Path(tempfile.mkdtemp(prefix="sluice-dbt-"))
(folder / "models").mkdir()
(folder / "dbt_project.yml").write_text(PROJECT)
(folder / "models" / "one.sql").write_text("select 1 as id")
output = {
    "type": "spark",
    "method": "thrift",
    "host": CONNECTION["host"],
    "port": CONNECTION["port"],
    "user": CONNECTION["username"],
    "password": CONNECTION["password"],
    "auth": "LDAP",
    "schema": "default",
    "threads": 1,
}
profile = {"compat": {"target": "dev", "outputs": {"dev": output}}}
(folder / "profiles.yml").write_text(json.dumps(profile))


def dbt(*arguments):
    program = Path(sys.executable).with_name("dbt")
    command = [str(program), *arguments, "--profiles-dir", str(folder)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout[-1200:] + done.stderr[-300:]
    return done.stdout


def connects():
    dbt("debug")


def reads_a_query():
    assert "42" in dbt("show", "--inline", "select 42 as answer")


def models():
    dbt("run")


run(connects, reads_a_query, models)
