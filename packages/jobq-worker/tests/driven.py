"""An engine that a test drives by hand, event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from working import lease

from jobq.core import BackendError, ExtendResult, RetryPolicy
from jobq.core.retries import DEFAULT_RETRY
from jobq.worker.engine import Engine
from jobq.worker.engine.commands import (
    Ack,
    DeadLetter,
    Exit,
    Extend,
    JobEnded,
    Notice,
    Receive,
    Run,
)
from jobq.worker.engine.config import EngineConfig, QueueConfig
from jobq.worker.engine.events import (
    DeadLettered,
    Delivery,
    Extended,
    Finished,
    Raised,
    Received,
    ReceiveFailed,
    Settled,
    Succeeded,
    Tick,
)

OUTAGE = BackendError("try again", retryable=True)
DENIED = BackendError("not allowed", denied=True)

C = TypeVar("C")


def raised(**policy: Any) -> Raised:
    return Raised(RetryPolicy(**policy).over(DEFAULT_RETRY))


GIVES_UP = raised(max_attempts=3, when_exhausted="dead_letter")


class Driven:
    """An engine told what happens, and all that it said so far. With `extends` it has leases
    extended at once, else never.

    Its queues are "jobs" and `more_queues`, with leases of 30 s and claims of ten.
    """

    def __init__(
        self,
        *,
        ordered: bool = False,
        extends: bool = True,
        more_queues: tuple[str, ...] | list[str] = (),
        max_runtime: float = 3600,
        random: float = 1.0,
        **options: Any,
    ) -> None:
        self.extends = extends
        queues = tuple(
            QueueConfig(
                name=name, ordered=ordered, visibility=30, claim_size=10, max_runtime=max_runtime
            )
            for name in ("jobs", *more_queues)
        )
        self.now = 0.0
        config = EngineConfig(queues=queues, **options)
        self.engine = Engine(config, now=self.now, random=lambda: random)
        self.said: list[Any] = []
        self.new: list[Any] = []
        self._answered: set[int] = set()
        self.tell(Tick())

    # --- what happens ------------------------------------------------------------------------

    def tell(self, *events: Any) -> None:
        for event in events:
            if isinstance(event, Received | ReceiveFailed):
                self._answered.add(event.poll)
            elif isinstance(event, Settled):
                self._answered.add(event.call)
        self.new = self.engine.handle(events, self.now)
        self.said += self.new
        for command in self.new:
            if self.extends and isinstance(command, Extend):
                self.tell(self._extended(command))

    def wait(self, seconds: float) -> None:
        """Let time go by as the runner does: woken when due, and once a second at least."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 1, max(self.engine.wake_at(), self.now + 0.001))
            self.tell(Tick())

    def receive(
        self,
        *bodies: str,
        receive_count: int = 3,
        queue: str = "jobs",
        group_ids: bool = False,
        **fields: Any,
    ) -> None:
        """A receive that is out brings these, leased for 30 s; each body is its message's id, and
        its group's with `group_ids`.
        """
        deliveries = [
            Delivery(
                lease(
                    body,
                    message_id=body,
                    receipt=f"{body}{self.now}",
                    receive_count=receive_count,
                    expires_at=self.now + 30,
                    **{"group_id": body if group_ids else None, **fields},
                ),
                "malformed" if body.startswith("malformed") else "runnable",
            )
            for body in bodies
        ]
        poll = next(poll.poll for poll in self.polls() if poll.queue == queue)
        self.tell(Received(poll, tuple(deliveries)))

    def finish(self, result: Any) -> None:
        """The last job that was started ends."""
        self.tell(Finished(self.last(Run).key, result, self.now))

    def finish_all(self, result: Any) -> None:
        running = list(self.engine.state.runs)
        self.tell(*(Finished(key, result, self.now) for key in running))

    def work(self, count: int, *, first: int = 0) -> None:
        """So many messages are received and their jobs succeed, all at once."""
        self.receive(*(f"m{n}" for n in range(first, first + count)))
        self.finish_all(Succeeded())

    def exhaust(self, body: str = "one", **fields: Any) -> None:
        """A message is received and its job fails for the last time, where it came thrice."""
        self.receive(body, **fields)
        self.finish(GIVES_UP)

    def answer_copy(self, *errors: Any) -> None:
        self.tell(DeadLettered(self.last(DeadLetter).call, errors))

    def answer_delete(self, *errors: Any) -> None:
        self.tell(Settled(self.last(Ack).call, errors))

    def answer_deletes(self, error: Any) -> None:
        """All deletes that are out are answered alike."""
        for command in self.all(Ack):
            if command.call not in self._answered:
                self.tell(Settled(command.call, tuple(error for _ in command.leases)))

    def wait_for_exit(self, error: Any) -> None:
        """Deletes go on being refused, and receives bring nothing, two minutes at most."""
        while not self.all(Exit):
            assert self.now < 120, "the worker goes on"
            self.answer_deletes(error)
            for poll in self.polls():
                self.tell(Received(poll.poll))
            self.wait(2.5)

    def stop_receiving(self, queue: str = "jobs") -> None:
        """The receives of one queue that are out bring nothing."""
        for poll in self.polls():
            if poll.queue == queue:
                self.tell(Received(poll.poll))

    def _extended(self, command: Extend) -> Extended:
        renewed = [replace(one, expires_at=self.now + 30) for one in command.leases]
        return Extended(command.call, tuple(ExtendResult(one) for one in renewed))

    # --- what was said -----------------------------------------------------------------------

    def all(self, kind: type[C]) -> list[C]:
        return [command for command in self.said if isinstance(command, kind)]

    def last(self, kind: type[C]) -> C:
        return self.all(kind)[-1]

    def polls(self) -> list[Receive]:
        """The receives that are out."""
        return [poll for poll in self.all(Receive) if poll.poll not in self._answered]

    def outcomes(self) -> list[tuple[str, str]]:
        return [(ended.lease.message_id, ended.outcome) for ended in self.all(JobEnded)]

    def notices(self) -> list[str]:
        return [notice.event for notice in self.all(Notice)]
