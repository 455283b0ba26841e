"""What the engine is told once, at start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Polling: TypeAlias = Literal["weighted", "strict"]
OnMalformed: TypeAlias = Literal["delete", "leave", "dead_letter"]
OnBrokenQueue: TypeAlias = Literal["back_off", "exit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """One queue. Times in seconds.

    `cap` bounds the slots that its jobs hold. `visibility` is sent with every receive.
    `max_receive_count` is the redrive policy's, None where there is none or it can't be read.
    """

    name: str
    ordered: bool
    visibility: float
    weight: float = 1
    cap: int | None = None
    max_runtime: float = 3600
    claim_size: int | None = None
    largest_batch: int = 10
    longest_visibility: float = 43_200
    max_receive_count: int | None = None

    @property
    def claim(self) -> int:
        """The most that one receive of a busy queue asks for."""
        if self.claim_size is not None:
            return self.claim_size
        return 1 if self.ordered else self.largest_batch

    def polls_at_once(self, concurrency: int) -> int:
        """How many receives may be out at once: enough for every slot, and one more."""
        return math.ceil(concurrency / self.claim) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The worker's own settings, times in seconds. `strict` goes by the order of `queues`."""

    queues: tuple[QueueConfig, ...]
    concurrency: int = 1
    polling: Polling = "weighted"
    idle_wait: float = 20
    claim_ahead: float = 1
    hold_limit: float = 20
    shutdown_timeout: float = 25
    on_malformed: OnMalformed = "delete"
    on_broken_queue: OnBrokenQueue = "back_off"
    burst: bool = False
