"""Deletes, hides, extensions and dead-letter copies; what the twins share is in `Steps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jobq.core import (
    BackendError,
    ExtendResult,
    JobqError,
    LeaseLostError,
    Message,
    PublishResult,
    SettleResult,
)
from jobq.worker.engine.commands import DeadLetter
from jobq.worker.engine.events import DeadLettered, Extended, Settled
from jobq.worker.faults import as_jobq_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from jobq.core import AsyncQueue, Lease, Queue
    from jobq.worker.engine.commands import Ack, Extend, Nack

Answer = TypeVar("Answer")
Event = TypeVar("Event", Settled, Extended, DeadLettered)

Flow: TypeAlias = "Generator[Callable[[], Any], Any, Answer]"
"""Yields the calls to be made, is sent what each returned or thrown what it raised, and returns."""


class Settling:
    """Answers each `Ack`, `Nack`, `Extend` and `DeadLetter` with one event; raises nothing.

    A lease that has run out by now is not sent: its message may be somebody else's. `dead_letters`
    holds the dead-letter queue of each queue that gives up messages.
    """

    def __init__(
        self,
        queues: Mapping[str, Queue],
        *,
        dead_letters: Mapping[str, Queue],
        clock: Callable[[], float],
    ) -> None:
        self._steps = Steps(queues, dead_letters, clock)

    def ack(self, command: Ack) -> Settled:
        return _drive(self._steps.ack(command))

    def nack(self, command: Nack) -> Settled:
        return _drive(self._steps.nack(command))

    def extend(self, command: Extend) -> Extended:
        return _drive(self._steps.extend(command))

    def dead_letter(self, command: DeadLetter) -> DeadLettered:
        return _drive(self._steps.dead_letter(command))


class AsyncSettling:
    """The same for async queues, to be awaited on the loop that they belong to."""

    def __init__(
        self,
        queues: Mapping[str, AsyncQueue],
        *,
        dead_letters: Mapping[str, AsyncQueue],
        clock: Callable[[], float],
    ) -> None:
        self._steps = Steps(queues, dead_letters, clock)

    async def ack(self, command: Ack) -> Settled:
        return await _drive_async(self._steps.ack(command))

    async def nack(self, command: Nack) -> Settled:
        return await _drive_async(self._steps.nack(command))

    async def extend(self, command: Extend) -> Extended:
        return await _drive_async(self._steps.extend(command))

    async def dead_letter(self, command: DeadLetter) -> DeadLettered:
        return await _drive_async(self._steps.dead_letter(command))


class Steps:
    """What is called for each command, and what its answer says, for queues of either kind."""

    def __init__(
        self,
        queues: Mapping[str, Queue | AsyncQueue],
        dead_letters: Mapping[str, Queue | AsyncQueue],
        clock: Callable[[], float],
    ) -> None:
        self._queues = queues
        self._dead_letters = dead_letters
        self._clock = clock

    def ack(self, command: Ack) -> Flow[Settled]:
        queue = self._queues[command.queue]
        results = yield from self._each(command, queue.ack_batch, SettleResult)
        return Settled(command.call, tuple(result.error for result in results))

    def nack(self, command: Nack) -> Flow[Settled]:
        queue, delay = self._queues[command.queue], command.delay
        results = yield from self._each(
            command, lambda live: queue.nack_batch(live, delay), SettleResult
        )
        return Settled(command.call, tuple(result.error for result in results))

    def extend(self, command: Extend) -> Flow[Extended]:
        queue, visibility = self._queues[command.queue], command.visibility
        results = yield from self._each(
            command, lambda live: queue.extend_batch(live, visibility), _not_extended
        )
        return Extended(command.call, tuple(results))

    def dead_letter(self, command: DeadLetter) -> Flow[DeadLettered]:
        target = self._dead_letters[command.queue]
        ordered = target.capabilities.ordered
        results = yield from self._each(
            command,
            lambda live: target.publish_batch([_copy(lease, ordered=ordered) for lease in live]),
            lambda error: PublishResult(error=error),
        )
        return DeadLettered(command.call, tuple(result.error for result in results))

    def _each(
        self,
        command: Ack | Nack | Extend | DeadLetter,
        call: Callable[[Sequence[Lease]], object],
        failed: Callable[[JobqError], Answer],
    ) -> Flow[list[Answer]]:
        """One answer for each lease of the command, in order."""
        now = self._clock()
        live = [lease for lease in command.leases if lease.expires_at > now]
        what = "dead-letter copy" if isinstance(command, DeadLetter) else type(command).__name__
        where = f"{what.lower()} of queue {command.queue!r}"
        answers: list[Answer] = []
        try:
            if live:
                answers = yield lambda: call(live)
        except BaseException as raised:  # noqa: BLE001 - what to make of it is the engine's to say
            error = as_jobq_error(raised, where)
            answers = [failed(error) for _ in live]
        if len(answers) != len(live):
            error = BackendError(f"{where}: {len(answers)} results for {len(live)}", retryable=True)
            answers = [failed(error) for _ in live]
        if len(live) == len(command.leases):
            return answers
        rest = iter(answers)
        return [
            next(rest) if lease.expires_at > now else failed(_ran_out(lease, now))
            for lease in command.leases
        ]


def _drive(flow: Flow[Event]) -> Event:
    try:
        call = next(flow)
        while True:
            try:
                answer = call()
            except BaseException as raised:  # noqa: BLE001 - the flow makes something of it
                call = flow.throw(raised)
            else:
                call = flow.send(answer)
    except StopIteration as end:
        return end.value


async def _drive_async(flow: Flow[Event]) -> Event:
    try:
        call = next(flow)
        while True:
            try:
                answer = await call()
            except BaseException as raised:  # noqa: BLE001 - the flow makes something of it
                call = flow.throw(raised)
            else:
                call = flow.send(answer)
    except StopIteration as end:
        return end.value


def _copy(lease: Lease, *, ordered: bool) -> Message:
    """The message as it came; sent twice in five minutes, an ordered queue keeps one."""
    return Message(
        lease.body,
        attributes=lease.attributes,
        group_id=lease.group_id,
        deduplication_id=lease.message_id if ordered else None,
    )


def _not_extended(error: JobqError) -> ExtendResult:
    return ExtendResult(error=error)


def _ran_out(lease: Lease, now: float) -> LeaseLostError:
    return LeaseLostError(
        f"the lease of message {lease.message_id} ran out {now - lease.expires_at:.1f} s ago"
    )
