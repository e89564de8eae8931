"""Options of the JVMs that do our work, driver or executor.

Pure; it must not know who starts them.
"""

from __future__ import annotations

from typing import Final

# HotSpot's default where it compiles in tiers. With fewer tiers (an option in the
# environment is enough) it is 48 MB, which adapters and compiled code share: when it is
# full, classes fail to initialise, for as long as the JVM lives.
CODE_CACHE_MB: Final = 240
# Of the letters of another language Hudi and Spark make no names of their own: in
# Turkish, upper case of `i` is no `I`, and no table is written at all.
# Hudi measures objects with JOL, which else starts two more JVMs at the first merge:
# they attach to ours and stop it to look at its layout. Figures for jstat would wake it
# twenty times a second.
EXECUTOR: Final = (
    "-Duser.language=en -Duser.country=US -Duser.timezone=UTC"
    " -Dfile.encoding=UTF-8 -Djol.skipHotspotSAAttach=true -XX:-UsePerfData"
    f" -XX:ReservedCodeCacheSize={CODE_CACHE_MB}m -XX:+SegmentedCodeCache"
)
# What is larger than half a region may begin a collection of the whole heap: buffers of
# some 500 kB in the regions of a small heap, each page that a Spark task sorts in, and
# each broadcast, with which every stage begins: by default 16 MB and blocks of 4 MB.
REGION_MB: Final = 8
PAGE_MB: Final = 2
BROADCAST_MB: Final = 1
_HEAP: Final = f"-XX:G1HeapRegionSize={REGION_MB}m"


def driver_options(scratch: str) -> str:
    """scratch: a folder that goes when the driver has ended, for a killed JVM leaves
    its unpacked libraries in its temporary folder: not where everybody's lie."""
    return (
        f'{EXECUTOR} {_HEAP} -XX:+ExitOnOutOfMemoryError "-Djava.io.tmpdir={scratch}"'
    )
