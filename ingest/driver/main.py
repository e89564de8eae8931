"""The driver's entry point: one Spark session that runs jobs from a control pipe.

`--warm` serves until it is told to stop; `--once` ends after the first report.
Both speak the messages of `ingest.contract` on stdin and stdout, get secrets there
only, and halt when the host falls silent. Arguments carry no secret:

    python -m ingest.driver.main --warm --jars a.jar:b.jar --scratch DIR
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence

from core.control_channel.stdio import take_over_stdio
from core.process_log import log_to
from ingest.driver.serve import Driver
from ingest.driver.session import SessionSpec, start_session


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    pipe = take_over_stdio()
    log_to()
    scratch = options.scratch or tempfile.mkdtemp(prefix="sluice-driver-")
    spark = start_session(
        SessionSpec(
            jars=options.jars.split(os.pathsep),
            scratch=scratch,
            master=options.master,
            memory=options.memory,
            app_name=options.name,
            extra=dict(pair.split("=", 1) for pair in options.conf),
        )
    )
    return Driver(spark, pipe, is_single=options.once).serve()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--warm", action="store_true", help="serve until stopped")
    mode.add_argument("--once", action="store_true", help="end after one report")
    parser.add_argument("--jars", required=True, help="class path of jars")
    parser.add_argument("--scratch", default="", help="directory for spill files")
    parser.add_argument("--master", default="local[4]")
    parser.add_argument("--memory", default="1500m", help="heap of the JVM")
    parser.add_argument("--name", default="sluice-ingest", help="of the application")
    parser.add_argument("--conf", action="append", default=[], metavar="K=V")
    return parser


if __name__ == "__main__":
    sys.exit(main())
