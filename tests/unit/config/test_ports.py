"""A default port moves on when it is taken; a wished one is an error."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from config.supervisor.ports import Claim, choose
from config.supervisor.stack import ROOT, Options, choose_ports
from core.errors import TerminalError

# below the ports that the system gives to clients
FIRST = 20_000 + os.getpid() % 10_000
CHOOSER = """
from config.supervisor.ports import choose
claim = choose(explicit=None, default={port}, what="web")
print(claim.port, flush=True)
input()
"""


def test_a_taken_default_moves_to_the_next_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        claim = choose(explicit=None, default=taken, what="web")
    claim.mark.close()
    assert taken < claim.port <= taken + 200


def test_whoever_chooses_at_once_chooses_another_one() -> None:
    together = Barrier(8)

    def chosen(_: int) -> Claim:
        together.wait()
        return choose(explicit=None, default=FIRST, what="web")

    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(chosen, range(8)))
    assert len({claim.port for claim in claims}) == 8, "nobody listens yet"
    for claim in claims:
        claim.mark.close()


def test_a_port_is_another_process_own_until_that_ends() -> None:
    command = [sys.executable, "-c", CHOOSER.format(port=FIRST)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        with pytest.raises(TerminalError, match=f"port {theirs} for web is taken"):
            choose(explicit=theirs, default=1, what="web")
        other.kill()
    claim = choose(explicit=theirs, default=1, what="web")
    claim.mark.close()
    assert claim.port == theirs


def test_an_explicit_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(TerminalError, match=f"port {taken} for web is taken"):
            choose(explicit=taken, default=1, what="web")


def test_a_home_keeps_its_ports_over_stop_and_start(tmp_path) -> None:
    options = Options(home=tmp_path)
    first = choose_ports(options)
    for claim in first.claims:
        claim.mark.close()
    with socket.create_server(("127.0.0.1", first.web)):
        moved = choose_ports(options)
    for claim in moved.claims:
        claim.mark.close()
    assert moved.web != first.web, "somebody else has it now"
    assert moved.gateway == first.gateway
    again = choose_ports(options)
    for claim in again.claims:
        claim.mark.close()
    assert (again.web, again.gateway) == (moved.web, moved.gateway)
    (tmp_path / "ports.json").write_text("damaged")
    for claim in choose_ports(options).claims:
        claim.mark.close()
