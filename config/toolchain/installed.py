"""What is installed on this machine: the facts that `combination` judges."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from config.toolchain.combination import Combination
from config.toolchain.paths import pyspark_home


def java_program(name: str) -> str | None:
    """`java` or `javac` of JAVA_HOME, else of PATH; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / name
        return str(program) if program.exists() else None
    return shutil.which(name)


def java_version(name: str) -> str:
    """The version that the program prints; "" when it is missing or will not run."""
    program = java_program(name)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = done.stderr + done.stdout
    found = re.search(r'(?:version "|javac )([\w.+-]+)', text)
    return found.group(1) if found else ""


def installed() -> Combination:
    """The combination on this machine. Takes about 0.1 s: it asks java and javac."""
    return Combination(
        python=platform.python_version(),
        java=java_version("java"),
        javac=java_version("javac"),
        spark=_spark_version(),
    )


def _spark_version() -> str:
    path = pyspark_home() / "version.py"
    text = path.read_text() if path.exists() else ""
    found = re.search(r"__version__.*?=\s*['\"]([^'\"]+)", text)
    return found.group(1) if found else ""
