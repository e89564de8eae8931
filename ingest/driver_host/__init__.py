"""Running specs on drivers: the port, the warm driver's processes, and their host."""

from __future__ import annotations
