"""A Python for the products that tests start: it has what `make setup-run` installs.

The tests' environment has more, and a product that imports a package of the tests works
here and nowhere else. This one shares its files, so making it takes no time, and
refuses to import what is in no lock of the product.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from config.toolchain.paths import ROOT

LOCKS = ("requirements", "requirements-build")
ALWAYS = frozenset({"pip"})
BLOCKER = """
import sys
from importlib.abc import MetaPathFinder

BLOCKED = frozenset({blocked!r})


class OnlyTheProducts(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            text = f"No module named {{name!r}}: it is installed for tests only"
            raise ModuleNotFoundError(text, name=name)


sys.meta_path.insert(0, OnlyTheProducts())
"""


@cache
def product_python() -> str:
    """The program, made on first use in the session's home; campaigns and benches have
    none."""
    session = os.environ.get("SLUICE_HOME") or tempfile.mkdtemp(prefix="sluice-test-")
    home = Path(session) / "run-python"
    packages = home / "lib" / f"python{sysconfig.get_python_version()}/site-packages"
    packages.mkdir(parents=True)
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    (home / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    python = home / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(base)
    blocker = BLOCKER.format(blocked=sorted(only_for_tests()))
    (packages / "only_the_products.py").write_text(blocker)
    ours = sysconfig.get_paths()["purelib"]
    (packages / "product.pth").write_text(f"{ours}\nimport only_the_products\n")
    return str(python)


def only_for_tests() -> frozenset[str]:
    """Top-level modules that no lock of the product brings."""
    theirs = ALWAYS.union(*map(locked, LOCKS))
    return frozenset(
        module
        for module, found in packages_distributions().items()
        if not theirs & {normal(name) for name in found}
    )


def locked(name: str) -> frozenset[str]:
    """Distributions that a lock or a list of requirements names."""
    at = ROOT / "config" / "toolchain"
    path = at / (name if name.endswith(".in") else f"{name}.lock")
    names = re.findall(r"^([A-Za-z0-9][\w.-]*)", path.read_text(), re.MULTILINE)
    return frozenset(map(normal, names))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
