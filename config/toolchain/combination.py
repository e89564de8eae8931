"""Which Python, Java, Spark and Hudi go together. Pure; the only table of it.

A wrong mix does not fail at start but deep inside a job, with a class that is missing.
Which Hudi is there, and for which Spark and Scala, `jars.toml` says with its SHA-256.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PYTHON, JAVA, SPARK, HUDI = "3.11", 17, "3.5.7", "1.2.0"
JAVA_ADVICE = "install a Java 17 JDK: apt-get install openjdk-17-jdk-headless"


@dataclass(frozen=True, slots=True)
class Combination:
    """What was found. Each is a version, "" when it was not found at all.

    java       of `java -version`, e.g. "17.0.15" or "1.8.0_392"
    javac      of `javac -version`
    spark      of the installed pyspark
    """

    python: str
    java: str
    javac: str
    spark: str = ""


def java_major(version: str) -> int:
    """17 for "17.0.15", 8 for "1.8.0_392", 0 for anything unknown."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found.group(1)) if found else 0


def problem(found: Combination) -> str:
    """One clear line saying what does not fit and what to do; "" when all fits."""
    return machine_problem(found) or _spark_problem(found)


def machine_problem(found: Combination) -> str:
    """The same for what must be there before anything is installed."""
    return _python_problem(found) or _java_problem(found)


def _python_problem(found: Combination) -> str:
    if found.python.startswith(f"{PYTHON}."):
        return ""
    return (
        f"Python {found.python} does not fit: Sluice runs on Python {PYTHON}: "
        "apt-get install python3.11 python3.11-venv"
    )


def _java_problem(found: Combination) -> str:
    if not found.java:
        return f"no Java found: {JAVA_ADVICE}"
    if java_major(found.java) != JAVA:
        return (
            f"Java {found.java} does not fit: Spark {SPARK} with Hudi {HUDI} runs on "
            f"Java {JAVA}: {JAVA_ADVICE}, or point JAVA_HOME to one"
        )
    if not found.javac:
        return f"Java {found.java} is a runtime without compiler: {JAVA_ADVICE}"
    if java_major(found.javac) != JAVA:
        return f"javac {found.javac} is not of Java {JAVA}: {JAVA_ADVICE}"
    return ""


def _spark_problem(found: Combination) -> str:
    if not found.spark:
        return "Spark (pyspark) is missing: run `make setup`"
    if found.spark != SPARK:
        return (
            f"Spark {found.spark} does not fit: Hudi {HUDI} is built "
            f"and tested here with pyspark {SPARK}: run `make setup`"
        )
    return ""
