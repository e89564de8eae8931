"""Options of the JVMs that do our work, warm or submitted, driver or executor.

Pure; it must not know who starts them.
"""

from __future__ import annotations

from typing import Final

EXECUTOR: Final = "-Duser.timezone=UTC -Dfile.encoding=UTF-8"


def driver_options(scratch: str) -> str:
    """scratch: a folder that goes when the driver has ended, for a killed JVM leaves
    its unpacked libraries in its temporary folder: not where everybody's lie."""
    return f'{EXECUTOR} -XX:+ExitOnOutOfMemoryError "-Djava.io.tmpdir={scratch}"'
