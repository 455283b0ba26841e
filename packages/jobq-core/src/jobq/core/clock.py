"""The clock that leases are dated on."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds on a clock that counts sleep: a suspended machine's leases run out meanwhile."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Seconds on the monotonic clock, the best this system has."""
        return time.monotonic()
