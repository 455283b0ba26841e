"""How long to wait after failures in a row."""

from __future__ import annotations

LONGEST_SECONDS = 30.0


def backoff(failures: int, *, random: float) -> float:
    """Seconds before the next try: 1 s, doubling to 30 s, times 0.5 to 1 by `random` (0 to 1)."""
    return min(LONGEST_SECONDS, 2.0 ** min(failures - 1, 10)) * (0.5 + random / 2)
