"""The logs of an engine and of a driver: JSON lines, whatever a user writes."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from config.toolchain.installed import java_program
from config.toolchain.paths import pyspark_home, spark_classpath
from tests.spark.engine_bench import EngineBench
from tests.waiting import wait_for

FORGED = (
    '{"at": "2026-11-26", "level": "INFO", "logger": "sluice.access", "message": "x"}'
)
TEXT = f'forged\n{FORGED}\nengine ends: forged\n\x1b[31mred "quoted" \\'
# what the JVM's own programs print before there is a log; nothing of a user stands there
LAUNCHER = ("NOTE: Picked up ", "Warning: Ignoring non-Spark config property: ")


def entries(log: str) -> list[dict[str, Any]]:
    lines = log.removesuffix("\n").split("\n")
    return [json.loads(line) for line in lines if not line.startswith(LAUNCHER)]


def test_a_statement_forges_no_line(bench: EngineBench) -> None:
    bench.policy("una", select=["shop.orders"])
    client = bench.connect("una")
    literal = TEXT.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    refused = client.run(f"select raise_error('{literal}')")
    assert refused.is_refused
    client.run(f"select * from `{TEXT}`")
    client.close()

    def log() -> str:
        return bench.log.read_text("utf-8")

    wait_for(lambda: "forged" in log(), "the error in the log")
    assert "\x1b" not in log()
    said = entries(log())
    raised = [one for one in said if "forged" in one.get("trace", "")]
    assert raised
    assert TEXT in raised[-1]["trace"]
    assert {"at", "level", "logger", "message"} <= raised[-1].keys()


PRINTS = """
public final class Prints {
  public static void main(String[] texts) throws Exception {
    io.sluice.lake.LogLines.takeOver();
    for (String text : texts) {
      System.err.println(text);
      System.out.printf("%s%n", text);
      new IllegalStateException(text).printStackTrace();
      org.slf4j.LoggerFactory.getLogger(text).error(text, new IllegalStateException(text));
    }
  }
}
"""
TEXTS = (TEXT, "plain", "Größe 订单 \u2028 \x85")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What is said of each text, which its line of the log ends."""
    source = tmp_path_factory.mktemp("prints") / "Prints.java"
    source.write_text(PRINTS)
    jars = f"{spark_classpath()}:{pyspark_home() / 'jars' / '*'}"
    program = java_program("java") or "java"
    done = subprocess.run(
        [program, "-Dfile.encoding=UTF-8", "-cp", jars, source, *TEXTS],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
    found: list[list[dict[str, Any]]] = [[]]
    for entry in entries(done.stderr.decode()):
        found[-1].append(entry)
        if entry["logger"] in TEXTS:
            found.append([])
    assert found.pop() == []
    return found


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_what_a_jvm_prints_is_a_line_of_its_log(
    number: int, printed: list[list[dict[str, Any]]]
) -> None:
    text, said = TEXTS[number], printed[number]
    assert text.splitlines()[0] in said[0]["message"]
    logged = said[-1]
    assert (logged["logger"], logged["message"]) == (text, text)
    assert text in logged["trace"]
