"""The logs of an engine and of a driver: JSON lines, whatever a user writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
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
  public static void main(String[] arguments) throws Exception {
    io.sluice.lake.LogLines.takeOver();
    String text = arguments[0];
    System.err.println(text);
    System.out.printf("%s%n", text);
    new IllegalStateException(text).printStackTrace();
    org.slf4j.LoggerFactory.getLogger(text).error(text, new IllegalStateException(text));
  }
}
"""


@pytest.mark.parametrize("text", [TEXT, "plain", "Größe 订单 \u2028 \x85"])
def test_what_a_jvm_prints_is_a_line_of_its_log(text: str, tmp_path: Path) -> None:
    source = tmp_path / "Prints.java"
    source.write_text(PRINTS)
    jars = f"{spark_classpath()}:{pyspark_home() / 'jars' / '*'}"
    done = subprocess.run(
        [
            java_program("java") or "java",
            "-Dfile.encoding=UTF-8",
            "-cp",
            jars,
            source,
            text,
        ],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
    said = entries(done.stderr.decode())
    assert text.splitlines()[0] in said[0]["message"]
    (logged,) = [one for one in said if one["logger"] == text]
    assert logged["message"] == text
    assert text in logged["trace"]
