"""How the product and a test look at a process that is ending."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import psutil

from core.processes.identity import ProcessIdentity, wait_group_gone
from core.processes.marks import Mark
from tests.processes import is_alive, wait_until_gone
from tests.waiting import wait_for

# Its first thread ends; another goes on until there is no more to read.
FIRST_THREAD_ENDS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.buffer.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_one_of_which_a_thread_is_left_is_alive() -> None:
    command = [sys.executable, "-c", FIRST_THREAD_ENDS]
    mark = Mark("SLUICE_TEST_MARK", uuid.uuid4().hex)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {mark.variable: mark.value},
    ) as process:
        seen = psutil.Process(process.pid)
        wait_for(
            lambda: seen.status() == psutil.STATUS_ZOMBIE, "its first thread's end"
        )
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        assert process.poll() is None
        assert is_alive(seen)
        assert identity.is_alive()
        assert not wait_group_gone(process.pid, seconds=0)
        assert mark.pids() == [process.pid]
        assert process.stdin
        process.stdin.close()
        wait_until_gone([seen])
        assert not identity.is_alive()
        assert wait_group_gone(process.pid, seconds=0)
        assert mark.pids() == []
        assert process.poll() is not None


def test_one_that_goes_while_it_is_looked_at_carries_no_mark() -> None:
    mark = Mark("SLUICE_TEST_MARK", uuid.uuid4().hex)
    with subprocess.Popen(
        ["sleep", "600"], env=os.environ | {mark.variable: mark.value}
    ) as process:
        seen = psutil.Process(process.pid)
        wait_for(lambda: mark.is_on(seen), "its mark")
        process.kill()
    assert not mark.is_on(seen)
