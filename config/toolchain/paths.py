"""Where the parts lie. Pure: nothing is downloaded, compiled or checked here."""

from __future__ import annotations

import hashlib
import os
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
JAVA_SOURCES = (
    ROOT / "ingest" / "driver" / "java",
    ROOT / "gateway" / "engines" / "spark" / "java",
)


@dataclass(frozen=True, slots=True)
class Jar:
    """A pinned jar: Maven coordinates, the SHA-256 of its bytes, why it is here.

    extra       the optional part that it belongs to; "" = always wanted
    classifier  Maven's word for another jar of the same coordinates
    """

    group: str
    artifact: str
    version: str
    sha256: str
    why: str
    extra: str = ""
    classifier: str = ""

    @property
    def file_name(self) -> str:
        ending = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{ending}.jar"

    @property
    def repository_path(self) -> str:
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.artifact}/{self.version}/{self.file_name}"


def pinned_jars(*extras: str) -> tuple[Jar, ...]:
    """What `jars.toml` pins, in its order, with these optional parts."""
    text = (Path(__file__).parent / "jars.toml").read_text(encoding="utf-8")
    jars = (Jar(**entry) for entry in tomllib.loads(text)["jar"])
    return tuple(jar for jar in jars if jar.extra in ("", *extras))


def extras_of(lake: str) -> tuple[str, ...]:
    """The optional parts that a lake at this address needs."""
    return ("s3",) if lake.startswith(("s3://", "s3a://")) else ()


def parts_home() -> Path:
    """The cache of jars: SLUICE_PARTS_CACHE, else `.sluice/parts` beside the code."""
    chosen = os.environ.get("SLUICE_PARTS_CACHE")
    return Path(chosen).absolute() if chosen else ROOT / ".sluice" / "parts"


def pyspark_home() -> Path:
    """The installed pyspark, of our virtual environment when run from outside it."""
    version = f"python{sysconfig.get_python_version()}"
    inside = Path(sysconfig.get_paths()["purelib"]) / "pyspark"
    return inside if inside.exists() else _site_packages(version) / "pyspark"


def _site_packages(version: str) -> Path:
    return VENV / "lib" / version / "site-packages"


def jar_paths(*extras: str) -> tuple[Path, ...]:
    """The pinned jars, without ours."""
    return tuple(parts_home() / "jars" / jar.file_name for jar in pinned_jars(*extras))


def java_files() -> tuple[Path, ...]:
    return tuple(path for path in java_sources() if path.suffix == ".java")


def java_sources() -> tuple[Path, ...]:
    """What our jar is made of: Java, and the resources that lie beside it."""
    found = (path for folder in JAVA_SOURCES for path in folder.rglob("*"))
    return tuple(sorted(path for path in found if path.is_file()))


def sluice_jar() -> Path:
    """Our own jar: its name carries the hash of its sources and of what they meet."""
    digest = hashlib.sha256()
    for jar in pinned_jars():
        digest.update(jar.sha256.encode())
    for path in java_sources():
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return parts_home() / f"sluice-{digest.hexdigest()[:16]}.jar"


def spark_jars(*extras: str) -> tuple[Path, ...]:
    """Every jar that a Spark driver needs beyond pyspark's own, ours first."""
    return (sluice_jar(), *jar_paths(*extras))


def spark_classpath(*extras: str) -> str:
    """The same as a class path, for `spark.driver.extraClassPath`."""
    return os.pathsep.join(str(path) for path in spark_jars(*extras))
