"""The images without a docker daemon: what can be read is read, what can run is run.

`compose-spec.json` is the schema of the Compose Specification (Apache License 2.0).
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from django.core.management import get_commands, load_command_class

from catalog.discovery.turns import WORKERS
from docker import healthcheck, make_secrets

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"
ONE_WORD = re.compile(r"(?<![a-z])(password|secret|token|key)s?(?![a-z])", re.I)
IMAGES = {"web", "worker", "tick", "followers", "gateway", "driver"}
OURS = IMAGES | {"prepare", "door"}


def instructions() -> list[tuple[str, str]]:
    """(INSTRUCTION, rest) with continued lines joined and comments left out."""
    text = (DOCKER / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    pairs = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(word.upper(), " ".join(rest.split())) for word, rest in pairs]


def stages() -> dict[str, dict[str, Any]]:
    """Each stage with what it inherits: `user`, `cmd`, `health`, `copies`, `env`."""
    found: dict[str, dict[str, Any]] = {}
    stage: dict[str, Any] = {}
    for word, rest in instructions():
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            inherited = found.get(parent, {"copies": [], "env": "", "run": ""})
            stage = {**inherited, "parent": parent}
            found[name] = stage
        elif word == "USER":
            stage["user"] = rest
        elif word == "CMD":
            stage["cmd"] = ast.literal_eval(rest)
        elif word == "HEALTHCHECK":
            stage["health"] = rest
        elif word in {"COPY", "ENV", "RUN"}:
            key = {"COPY": "copies", "ENV": "env", "RUN": "run"}[word]
            more = [rest] if word == "COPY" else f"{rest}\n"
            stage[key] = stage[key] + more
    return found


def compose() -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return body


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


# ------------------------------------------------------------------ Dockerfile
def test_images_run_as_nobody_special_with_a_health_check():
    found = stages()
    assert found.keys() >= IMAGES
    for name in IMAGES:
        assert found[name]["user"] == "10001:10001", name
        assert found[name]["health"], name
        assert isinstance(found[name]["cmd"], list), "exec form: signals must arrive"


def test_the_base_is_pinned_and_takes_a_digest():
    arguments = dict(
        rest.split("=", 1) for word, rest in instructions() if word == "ARG"
    )
    assert re.fullmatch(r"\S+:\d+\.\d+\.\d+-slim-\w+", arguments["BASE"])
    assert stages()["base"]["parent"] == "${BASE}${BASE_DIGEST:+@}${BASE_DIGEST}"


def test_no_compiler_and_no_needless_java_at_run_time():
    found = stages()
    for name in IMAGES:
        assert not re.search(r"\b(gcc|jdk|libc6-dev)\b", found[name]["run"]), name
        has_java = "openjdk-17-jre-headless" in found[name]["run"]
        assert has_java == (name in {"gateway", "driver"})


def test_no_secret_is_built_in():
    for name, stage in stages().items():
        for setting in re.findall(r"([A-Z_]+)=", stage["env"]):
            assert not ONE_WORD.search(setting.replace("_", " ")), (name, setting)


def test_everything_copied_exists_and_is_let_into_the_build():
    allowed = {
        line[1:]
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = set()
    for line in stages()["build"]["copies"]:
        copied.update(line.split()[:-1])
    assert copied == allowed
    missing = [name for name in copied if not (ROOT / name).exists()]
    assert not missing
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests"} <= copied


# ------------------------------------------------------------------ compose
@pytest.mark.filterwarnings("ignore:The metaschema specified:DeprecationWarning")
def test_the_compose_file_is_one():
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    faults = [f"{list(e.path)}: {e.message}" for e in validator.iter_errors(compose())]
    assert not faults


def test_every_container_is_hardened():
    for name, service in services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        assert (
            "@" in service["image"]
            or name in OURS
            or re.search(r":\d+\.\d+", service["image"])
        ), name


def test_secrets_come_as_files_and_only_where_they_are_needed():
    body = compose()
    assert body["secrets"].keys() == make_secrets.texts().keys()
    for name, service in services().items():
        for setting, value in service.get("environment", {}).items():
            is_secret = ONE_WORD.search(setting.replace("_", " "))
            assert not is_secret or setting.endswith("_FILE"), (name, setting)
            if str(value).startswith("/run/secrets/"):
                assert value.rsplit("/", 1)[1] in service["secrets"], (name, setting)
    gateway = services()["gateway"]["secrets"]
    assert not {"stored_secrets_keys", "redis_url"} & set(gateway)
    assert not services()["door"].get("secrets")


def test_nothing_but_the_door_is_reachable_and_only_from_this_machine():
    ports = {n: s["ports"] for n, s in services().items() if s.get("ports")}
    assert ports.keys() == {"door"}
    assert all(":-127.0.0.1:" in port for port in ports["door"])
    networks = compose()["networks"]
    assert networks["data"]["internal"] is True
    for name in ("postgres", "redis"):
        assert services()[name]["networks"] == ["data"]


def test_the_lake_is_read_only_where_people_send_statements():
    assert "lake:/lake:ro" in services()["gateway"]["volumes"]


# ------------------------------------------------------------------ commands
def commands() -> list[list[str]]:
    built = [stage["cmd"] for name, stage in stages().items() if name in IMAGES]
    return built + [
        s["command"] for n, s in services().items() if n in OURS and "command" in s
    ]


def test_each_manage_command_exists_and_takes_its_arguments():
    known, seen = get_commands(), set()
    for words in commands():
        if words[:2] != ["python", "manage.py"]:
            continue
        name = words[2]
        command = load_command_class(known[name], name)
        command.create_parser("manage.py", name).parse_args(words[3:])
        seen.add(name)
    assert seen == {"migrate", "web", "tick", "followers", "gateway", "driver"}


def environment_of(service: str, folder: Path) -> dict[str, str]:
    """What compose gives that container, with its secrets made into `folder`."""
    make_secrets.main(folder / "secrets")
    given = {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
        for name, value in services()[service]["environment"].items()
    }
    for name, value in given.items():
        given[name] = value.replace("/run/secrets", str(folder / "secrets"))
    kept = {k: os.environ[k] for k in ("PATH", "LC_ALL") if k in os.environ}
    home = {"SLUICE_HOME": str(folder), "SLUICE_LAKE_URI": str(folder / "lake")}
    return {**kept, **home, **given, "DJANGO_SETTINGS_MODULE": "config.settings"}


def run(
    words: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_web_image_s_own_command_accepts_compose_s_settings(tmp_path):
    words = stages()["web"]["cmd"]
    run([*words, "--check-config"], environment_of("web", tmp_path))


def test_deployed_settings_pass_django_s_own_check(tmp_path):
    environment = environment_of("gateway", tmp_path)
    environment["SLUICE_PUBLIC_URL"] = "https://sluice.example.org"
    check = ["python", "manage.py", "check", "--deploy", "--fail-level", "ERROR"]
    check += ["--tag", "security", "--tag", "sluice"]  # the others cost seconds
    told = run(check, environment).stderr
    assert set(re.findall(r"security\.W\d+", told)) <= {
        "security.W004",  # HSTS and redirects are the proxy's, which does TLS
        "security.W008",
    }, told


# ------------------------------------------------------------------ our two scripts
def test_secrets_are_made_once_and_belong_together(tmp_path, capsys):
    folder = tmp_path / "secrets"
    assert make_secrets.main(folder) == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert made["database_password"] in made["database_url"]
    assert make_secrets.main(folder) == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == made
    (folder / "redis_url").unlink()
    assert make_secrets.main(folder) == 1
    assert not any(text in capsys.readouterr().out for text in made.values())


def test_the_health_check_says_what_it_sees(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    monkeypatch.setenv("SLUICE_WEB_PORT", "1")
    monkeypatch.setenv("SLUICE_GATEWAY_PORT", "1")
    monkeypatch.setenv("SLUICE_GATEWAY_HTTP_PORT", "1")
    assert [healthcheck.main([name]) for name in healthcheck.CHECKS] == [1, 1, 1]
    (tmp_path / "run").mkdir()
    facts = tmp_path / "run" / "driver.pid.json"
    facts.write_text(json.dumps({"pid": os.getpid()}))
    assert healthcheck.main(["driver"]) == 0
    facts.write_text(json.dumps({"pid": 2**22 + 1}))
    assert healthcheck.main(["driver"]) == 1
    assert healthcheck.main(["nothing"]) == 1


def test_a_lake_on_an_object_store_reaches_every_process_that_needs_it():
    body = yaml.safe_load((DOCKER / "compose.s3.yaml").read_text())
    assert body["services"].keys() == IMAGES
    for name, service in body["services"].items():
        assert set(service["secrets"]) == body["secrets"].keys(), name
        given = service["environment"]
        assert given["SLUICE_LAKE_URI"].startswith("${SLUICE_LAKE_URI:?"), name
        files = {v.rsplit("/", 1)[1] for k, v in given.items() if k.endswith("_FILE")}
        assert files == body["secrets"].keys(), name
        has_jars = service.get("build", {}).get("args", {}).get("SLUICE_S3") == "1"
        assert has_jars == (name in {"gateway", "driver"}), name


def test_as_many_workers_are_started_as_their_places_are_counted_for() -> None:
    for path in (DOCKER / "Dockerfile", ROOT / "config" / "supervisor" / "stack.py"):
        started = re.findall(r'"--concurrency", "(\d+)"', path.read_text())
        assert started == [str(WORKERS)], path
