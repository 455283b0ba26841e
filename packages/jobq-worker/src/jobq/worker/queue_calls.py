"""Receives, deletes, hides, extensions and copies: in threads for sync queues, else in tasks.

No kind of call waits for another, and one queue that never answers costs no other its leases: each
has a number of calls of each kind to itself, receives apart, of which any number may be out.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from jobq.worker.engine.commands import Ack, DeadLetter, Extend, Nack, Receive
from jobq.worker.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextvars import Context

    from jobq.worker.engine.events import Event
    from jobq.worker.loops import WorkerLoop
    from jobq.worker.polls import AsyncPolls, Polls
    from jobq.worker.settling import AsyncSettling, Settling

    Call: TypeAlias = Receive | Ack | DeadLetter | Nack | Extend


class Kind(NamedTuple):
    """What calls share that wait for one another: `most` at once, for each queue."""

    name: str
    most: int


def _kinds(concurrency: int) -> dict[type[Any], Kind]:
    settling = Kind("jobq-settle", concurrency + 1)
    return {
        Ack: settling,
        Nack: settling,
        DeadLetter: Kind("jobq-dead-letter", 1),
        Extend: Kind("jobq-extend", 2),
    }


class QueueThreads:
    """Makes the calls of sync queues: `bring` gets each answer, once, in a thread of its own.

    `put` gets those that came while their thread was busy. `crashed` is told what should never be
    raised.
    """

    def __init__(
        self,
        *,
        polls: Polls,
        settling: Settling,
        context: Context,
        concurrency: int,
        bring: Callable[[Event], None],
        put: Callable[[Event], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._polls = polls
        self._context = context
        self._bring = bring
        self._put = put
        self._crashed = crashed
        self._kinds = _kinds(concurrency)
        self._polling = Pool("jobq-poll", context=context)
        self._pools: dict[tuple[str, str], Pool] = {}
        self._ways: dict[type[Any], Callable[[Any], Event]] = {
            Ack: settling.ack,
            DeadLetter: settling.dead_letter,
            Nack: settling.nack,
            Extend: settling.extend,
        }

    def begin(self, call: Call) -> None:
        """See that it is made; waits for nothing."""
        if isinstance(call, Receive):
            self._polling.submit(self._receive, call)
            return
        kind = self._kinds[type(call)]
        pool = self._pools.get((kind.name, call.queue))
        if pool is None:
            pool = answering_pool(kind, context=self._context, bring=self._bring, put=self._put)
            self._pools[kind.name, call.queue] = pool
        pool.submit(self._answer, call)

    def close(self) -> None:
        """Let the threads go; waits for none."""
        for pool in (self._polling, *self._pools.values()):
            pool.close()

    def _receive(self, call: Receive) -> None:
        try:
            self._polls.receive(call, self._bring)
        except BaseException as error:  # noqa: BLE001 - the engine must hear of it
            self._crashed(error)

    def _answer(self, call: Call) -> Event | None:
        try:
            return self._ways[type(call)](call)
        except BaseException as error:  # noqa: BLE001 - the engine must hear of it
            self._crashed(error)
            return None


class QueueTasks:
    """Makes the calls of async queues, on `loop`: `put` gets each answer, once, there."""

    def __init__(
        self,
        *,
        polls: AsyncPolls,
        settling: AsyncSettling,
        loop: WorkerLoop,
        context: Context,
        concurrency: int,
        put: Callable[[Event], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._polls = polls
        self._loop = loop
        self._context = context
        self._put = put
        self._crashed = crashed
        self._kinds = _kinds(concurrency)
        self._turns: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: list[Call] = []
        self._ways: dict[type[Any], Callable[[Any], Awaitable[Event]]] = {
            Ack: settling.ack,
            DeadLetter: settling.dead_letter,
            Nack: settling.nack,
            Extend: settling.extend,
        }

    def begin(self, call: Call) -> None:
        """See that it is made, once `flush` is called; waits for nothing."""
        self._begun.append(call)

    def flush(self) -> None:
        """Wake the loop once for all the calls that there are."""
        if self._begun:
            calls, self._begun = self._begun, []
            self._loop.call(self._start, calls)

    def _start(self, calls: list[Call]) -> None:
        loop = asyncio.get_running_loop()
        for call in calls:
            making = self._receive(call) if isinstance(call, Receive) else self._answer(call)
            task = loop.create_task(making, context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _receive(self, call: Receive) -> None:
        try:
            await self._polls.receive(call, self._put)
        except BaseException as error:  # noqa: BLE001 - the engine must hear of it
            self._crashed(error)

    async def _answer(self, call: Call) -> None:
        kind = self._kinds[type(call)]
        turn = self._turns.get((kind.name, call.queue))
        if turn is None:
            turn = self._turns[kind.name, call.queue] = asyncio.Semaphore(kind.most)
        try:
            async with turn:
                event = await self._ways[type(call)](call)
            self._put(event)
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - the engine must hear of it
            self._crashed(error)


def answering_pool(
    kind: Kind,
    *,
    context: Context,
    bring: Callable[[Event], None],
    put: Callable[[Event], None],
) -> Pool:
    """Threads whose work returns an event, or None after a crash."""
    # While this thread is busy others' answers come too, and one turn takes in all of them.
    return Pool(
        kind.name,
        context=context,
        most=kind.most,
        then=partial(_hand_on, bring),
        in_passing=partial(_hand_on, put),
    )


def _hand_on(take: Callable[[Event], None], answer: Event | None) -> None:
    if answer is not None:
        take(answer)
