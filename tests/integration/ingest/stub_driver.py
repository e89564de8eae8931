"""A driver process without Spark: the fake launcher behind a real control channel.

argv[1] names a file with one fault per line ("kind fault"), taken from the top by
whichever process comes first. It has a child of its own, as a driver has its JVM.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from core.control_channel.stdio import ControlPipe, take_over_stdio
from ingest.contract.job import SecretAnswer, spec_from
from ingest.contract.members import value_of
from tests.doubles.launcher import FakeLauncher, Fault

FAULTS = Path(sys.argv[1])


def take_fault(kind: str) -> Fault:
    with FAULTS.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = file.read().split("\n")
        mine = next((line for line in lines if line.startswith(f"{kind} ")), None)
        if mine is None:
            return Fault.NONE
        lines.remove(mine)
        file.seek(0)
        file.truncate()
        file.write("\n".join(lines))
    return Fault(mine.split()[1])


def listen(driver: FakeLauncher, lock: threading.Lock, control: ControlPipe) -> None:
    for message in control.messages():
        with lock:
            match message["type"]:
                case "run":
                    spec = spec_from(message["spec"])
                    driver.faults[spec.kind] = deque([take_fault(spec.kind)])
                    driver.submit(spec, isolated=False)
                case "cancel":
                    driver.cancel(message["job_id"], message["mode"])
                case "secret":
                    told = {k: v for k, v in message.items() if k != "type"}
                    driver.give_secret(value_of(SecretAnswer, told), origin="")
                case "stop":
                    os._exit(0)
    os._exit(70)


def main() -> None:
    subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    os.write(1, b"noise of a library\n")
    control = take_over_stdio()
    driver, lock = FakeLauncher(), threading.Lock()
    driver.start("stub")
    threading.Thread(target=listen, args=(driver, lock, control), daemon=True).start()
    while True:
        with lock:
            said = driver.poll(0)
        for message in said:
            if message.kind == "died":
                os._exit(9)
            control.send(message.kind, **message.data)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
