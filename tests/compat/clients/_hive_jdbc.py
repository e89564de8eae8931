"""Runs HiveJdbc.java, one program for every release of Hive's JDBC driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from _checks import CONNECTION, IS_HTTP

PROGRAM = Path(__file__).parent / "HiveJdbc.java"


def run() -> None:
    """Its lines are those of `_checks.run`."""
    environment = {
        **os.environ,
        "SLUICE_URL": "jdbc:hive2://{host}:{port}/".format(**CONNECTION),
        "SLUICE_TRANSPORT": ";transportMode=http;httpPath=cliservice" * IS_HTTP,
        "SLUICE_USER": CONNECTION["username"],
        "SLUICE_PASSWORD": CONNECTION["password"],
    }
    class_path = os.environ["SLUICE_CLASS_PATH"]
    command = ["java", "-Xmx256m", "-cp", class_path, str(PROGRAM)]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    for line in done.stdout.splitlines():
        name, _, error = line.partition("\t")
        if not name.isidentifier():  # the driver's log
            continue
        sys.stdout.write(json.dumps({"check": name, "error": error}) + "\n")
    if done.returncode:
        sys.exit(done.returncode)
