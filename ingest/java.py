"""Options of the JVMs that do our work, warm or submitted, driver or executor.

Pure; it must not know who starts them.
"""

from __future__ import annotations

from typing import Final

# Hudi measures objects with JOL, which else starts two more JVMs at the first merge:
# they attach to ours and stop it to look at its layout.
EXECUTOR: Final = (
    "-Duser.timezone=UTC -Dfile.encoding=UTF-8 -Djol.skipHotspotSAAttach=true"
)
# Buffers of some 500 kB are half a region of a small heap, and each one that is larger
# begins a collection of the whole heap.
_HEAP: Final = "-XX:G1HeapRegionSize=8m"


def driver_options(scratch: str) -> str:
    """scratch: a folder that goes when the driver has ended, for a killed JVM leaves
    its unpacked libraries in its temporary folder: not where everybody's lie."""
    return (
        f'{EXECUTOR} {_HEAP} -XX:+ExitOnOutOfMemoryError "-Djava.io.tmpdir={scratch}"'
    )
