"""The real follower with shorter pauses: a test waits for segments and for what is told
of them, and for nothing else."""

from __future__ import annotations

import sys

from ingest.follower import follower
from ingest.follower.__main__ import main

follower._SECONDS = follower._STATE_SECONDS = follower._READ_SECONDS = 0.1
follower._LOOK_SECONDS = 1.0

if __name__ == "__main__":
    sys.exit(main())
