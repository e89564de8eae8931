"""What is vendored is what its build wrote, from the packages that its lock names."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

FRONTEND = Path(__file__).resolve().parents[3] / "frontend"
VENDOR = FRONTEND / "static" / "frontend" / "vendor"
EDITOR = FRONTEND / "editor"


def test_each_vendored_file_has_its_recorded_hash() -> None:
    folders = [path for path in VENDOR.iterdir() if path.is_dir()]
    for folder in folders:
        recorded = dict(
            reversed(line.split("  ", 1))
            for line in (folder / "SHA256SUMS").read_text().splitlines()
        )
        scripts = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.iterdir()
            if path.name not in {"LICENSE", "SHA256SUMS"}
        }
        assert scripts == recorded, f"{folder.name}: run `make editor`, never edit it"
    readme = (VENDOR / "README.md").read_text()
    assert folders
    assert all(f"`{folder.name}`" in readme for folder in folders)


def test_the_editors_licences_name_every_package_of_its_lock() -> None:
    lock = json.loads((EDITOR / "package-lock.json").read_text())["packages"]
    bundled = {
        f"{path.removeprefix('node_modules/')} {package['version']}"
        for path, package in lock.items()
        if path and not package.get("dev") and not package.get("optional")
    }
    named = set((VENDOR / "codemirror-6" / "LICENSE").read_text().splitlines())
    assert bundled <= named, bundled - named


def test_the_editors_lock_is_exact_and_names_no_registry() -> None:
    package = json.loads((EDITOR / "package.json").read_text())
    wanted = package["dependencies"] | package["devDependencies"]
    lock = json.loads((EDITOR / "package-lock.json").read_text())["packages"]
    for path, locked in lock.items():
        assert "resolved" not in locked, path
        assert not path or locked["integrity"].startswith("sha512-"), path
    for name, version in wanted.items():
        assert lock[f"node_modules/{name}"]["version"] == version
