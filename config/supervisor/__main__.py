"""`python -m config.supervisor`: the supervising process itself; see quickstart."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from config.supervisor.home import Home
from config.supervisor.stack import Options
from config.supervisor.supervisor import Supervisor, describe
from core.errors import TerminalError
from core.files import write_private
from core.process_log import log_to


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--no-demo", action="store_true")
    parser.add_argument("--web-port", type=int)
    parser.add_argument("--gateway-port", type=int)
    parser.add_argument("--gateway-http-port", type=int)
    given = parser.parse_args()
    log_to(sys.stdout)
    options = Options(
        home=given.home.absolute(),
        has_demo=not given.no_demo,
        web_port=given.web_port,
        gateway_port=given.gateway_port,
        gateway_http_port=given.gateway_http_port,
    )
    problem = Home(options.home).problem_file
    try:
        Supervisor(options).run()
    except TerminalError as error:
        write_private(problem, describe(error))
        return 1
    except Exception as error:  # noqa: BLE001  the waiting parent must get the error
        log = traceback.format_exc()
        write_private(problem, describe(TerminalError(str(error), facts={"log": log})))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
