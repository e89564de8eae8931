"""Fetches the pinned jars once and checks every byte by SHA-256.

No repository's address stands here: SLUICE_MAVEN_URL names one, else a Maven on this
machine is asked with its own settings, else the Ivy that pyspark carries.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from config.toolchain.installed import java_program
from config.toolchain.paths import Jar, parts_home, pinned_jars, pyspark_home

FETCH_SECONDS = 900
IVY_FILE = """\
<ivy-module version="2.0">
  <info organisation="sluice" module="parts"/>
  <dependencies>
    <dependency org="{group}" name="{artifact}" rev="{version}" transitive="false"/>
  </dependencies>
</ivy-module>
"""


class PartMissing(Exception):
    """A jar could not be had; the text says which, what was tried, what to do."""


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def ensure_jars(say: Callable[[str], None], *extras: str) -> tuple[Path, ...]:
    """All pinned jars, present and right. Offline when they are cached."""
    return tuple(ensure_jar(jar, say) for jar in pinned_jars(*extras))


def ensure_jar(jar: Jar, say: Callable[[str], None]) -> Path:
    """The checked jar in the cache; PartMissing when no way brought the right one."""
    target = parts_home() / "jars" / jar.file_name
    if target.exists() and sha256_of(target) == jar.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    tried: list[str] = []
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        scratch = Path(folder)
        for name, way in ways():
            say(f"{jar.file_name}: {name}")
            try:
                found = way(jar, scratch)
            except (OSError, subprocess.SubprocessError, StopIteration) as error:
                tried.append(f"{name}: {_last_line(error)}")
                continue
            digest = sha256_of(found)
            if digest == jar.sha256:
                found.replace(target)  # atomic: a parallel set-up sees all or nothing
                return target
            tried.append(f"{name}: SHA-256 {digest} instead of {jar.sha256}")
    raise PartMissing(
        f"cannot get {jar.group}:{jar.artifact}:{jar.version}: {'; '.join(tried)}. "
        "Set SLUICE_MAVEN_URL to the address of a Maven repository, or put the file "
        f"into {target.parent}"
    )


def ways() -> list[tuple[str, Callable[[Jar, Path], Path]]]:
    """The ways to try, in order. A named repository is the only one when named."""
    if os.environ.get("SLUICE_MAVEN_URL"):
        return [("download from SLUICE_MAVEN_URL", by_url)]
    found: list[tuple[str, Callable[[Jar, Path], Path]]] = []
    if (Path.home() / ".m2" / "repository").is_dir():
        found.append(("copy from the local Maven repository", by_local_repository))
    if shutil.which("mvn"):
        found.append(("fetch by Maven", by_maven))
    return [*found, ("fetch by Ivy", by_ivy)]


def by_url(jar: Jar, scratch: Path) -> Path:
    address = os.environ["SLUICE_MAVEN_URL"].rstrip("/")
    target = scratch / jar.file_name
    with (
        urllib.request.urlopen(f"{address}/{jar.repository_path}", timeout=60) as reply,
        target.open("wb") as stream,
    ):
        shutil.copyfileobj(reply, stream, 1 << 20)
    return target


def by_local_repository(jar: Jar, scratch: Path) -> Path:
    source = Path.home() / ".m2" / "repository" / jar.repository_path
    return Path(shutil.copyfile(source, scratch / jar.file_name))


def by_maven(jar: Jar, scratch: Path) -> Path:
    coordinates = f"{jar.group}:{jar.artifact}:{jar.version}:jar"
    if jar.classifier:
        coordinates += f":{jar.classifier}"
    goal = "dependency:copy"
    options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={scratch}"]
    _run(["mvn", "--batch-mode", "--quiet", goal, *options], scratch)
    return next(scratch.glob("*.jar"))


def by_ivy(jar: Jar, scratch: Path) -> Path:
    if jar.classifier:
        raise OSError("it is asked for jars without a classifier only")
    ivy = next((pyspark_home() / "jars").glob("ivy-*.jar"))
    description = scratch / "ivy.xml"
    description.write_text(
        IVY_FILE.format(group=jar.group, artifact=jar.artifact, version=jar.version)
    )
    command = [
        *(java_program("java") or "java", "-cp", str(ivy), "org.apache.ivy.Main"),
        *("-cache", str(scratch / "cache"), "-ivy", str(description)),
        *("-retrieve", str(scratch / "[artifact]-[revision].[ext]")),
        *("-types", "jar", "bundle"),
    ]
    _run(command, scratch)
    return next(scratch.glob("*.jar"))


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line]
        raise OSError(lines[-1] if lines else f"exit {done.returncode}")


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
