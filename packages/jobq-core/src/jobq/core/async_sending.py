"""Sends what producers ask for, through their hooks, on an event loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq.core.message import PublishResult
from jobq.core.middleware import call_async
from jobq.core.parcels import Packing, Parcel, add_position, unsent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.interfaces.queue import AsyncQueue
    from jobq.core.job import Job
    from jobq.core.job_requests import JobRequest
    from jobq.core.message import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSender:
    """Sends to one queue through produce hooks."""

    packing: Packing
    queue: AsyncQueue

    async def send(self, request: JobRequest) -> str:
        packing, capabilities = self.packing, self.queue.capabilities
        sent: list[str] = []

        async def publish(job: Job) -> str:
            parcel = packing.pack(request, job, capabilities)
            sent.append(await self.queue.publish(parcel.message))
            packing.log_sent(parcel, sent[0])
            return sent[0]

        job = packing.open(request, capabilities)
        answer = await call_async(packing.hooks, publish, job, queue=packing.name)
        return packing.message_id(answer, sent[0] if sent else None)

    async def send_batch(self, requests: Sequence[JobRequest]) -> list[str]:
        """Send all or, where one is refused or a hook raises before the send, none.

        Every chain runs up to its `call_next` before the one batch call, each in a task of its own
        with a copy of the caller's context, and on to its end after it.
        """
        capabilities = self.queue.capabilities
        jobs = self.packing.open_all(requests, capabilities)
        if not self.packing.hooks:
            return await self._send_plain(requests, jobs)
        chains = [
            _Chain(self.packing, request, job, capabilities)
            for request, job in zip(requests, jobs, strict=True)
        ]
        try:
            await _until_waiting(chains)
            waiting = [(chain, chain.parcel) for chain in chains if chain.parcel and chain.waits]
            results = await self._publish([parcel for _, parcel in waiting])
            for (chain, _), result in zip(waiting, results, strict=True):
                chain.resume(result)
            await _until_ended(chains)
        except GeneratorExit:
            for chain in chains:
                chain.task.cancel()
            raise
        except BaseException as error:
            await _give_up(chains, error)
            raise
        return self._finish(chains)

    async def _send_plain(self, requests: Sequence[JobRequest], jobs: Sequence[Job]) -> list[str]:
        parcels: list[Parcel] = []
        for position, (request, job) in enumerate(zip(requests, jobs, strict=True)):
            try:
                parcels.append(self.packing.pack(request, job, self.queue.capabilities))
            except BaseException as error:
                add_position(error, position)
                raise
        return self.packing.message_ids(await self._publish(parcels), [])

    async def _publish(self, parcels: list[Parcel]) -> list[PublishResult]:
        if not parcels:
            return []
        results = await self.queue.publish_batch([parcel.message for parcel in parcels])
        self.packing.log_all_sent(parcels, results)
        return results

    def _finish(self, chains: list[_Chain]) -> list[str]:
        results: list[PublishResult] = []
        raised: list[BaseException] = []
        for chain in chains:
            try:
                results.append(PublishResult(chain.result()))
            except BaseException as error:  # noqa: BLE001 - raised once each item has its result
                raised.append(error)
                results.append(chain.sent or PublishResult(error=unsent(error)))
        return self.packing.message_ids(results, raised)


class _Chain:
    """The hooks around one job of a batch, in a task that stands still where they call on.

    Then it `waits`, with its `parcel`; `sent` is what became of that.
    """

    def __init__(
        self, packing: Packing, request: JobRequest, job: Job, capabilities: Capabilities
    ) -> None:
        loop = asyncio.get_running_loop()
        self.parcel: Parcel | None = None
        self.sent: PublishResult | None = None
        # Done once the chain waits or has ended, with what it raised in the latter case.
        self.stands: asyncio.Future[None] = loop.create_future()
        self._gate: asyncio.Future[str] = loop.create_future()
        self._packing = packing
        self._request = request
        self._capabilities = capabilities
        self.task = loop.create_task(self._run(job), name=f"jobq batch for {packing.name}")
        self.task.add_done_callback(self._note_end)

    @property
    def waits(self) -> bool:
        return self.parcel is not None and not (self._gate.done() or self.task.done())

    def result(self) -> str:
        """What the ended chain returned, or raises what it raised."""
        answer, error = self.task.result()
        if error is not None:
            raise error
        return answer

    def resume(self, result: PublishResult) -> None:
        self.sent = result
        if not self.waits:  # the hooks gave it up while it was being sent
            return
        if result.error is None:
            self._gate.set_result(result.message_id or "")
        else:
            self._gate.set_exception(result.error)

    def give_up(self, cause: BaseException) -> None:
        """End the chain, whose send will not be: where it waits with an error, else by a
        cancellation, as it is where the caller was cancelled.
        """
        if self.waits and not isinstance(cause, asyncio.CancelledError):
            self._gate.set_exception(unsent(cause))
        else:
            self.task.cancel()

    async def _run(self, job: Job) -> tuple[str, BaseException | None]:
        packing = self._packing
        try:
            answer = await call_async(packing.hooks, self._send, job, queue=packing.name)
            return packing.message_id(answer, self.sent.message_id if self.sent else None), None
        except (KeyboardInterrupt, SystemExit) as error:
            # A task that raises one ends its loop: it is for whoever awaits the batch.
            return "", error

    async def _send(self, job: Job) -> str:
        self.parcel = self._packing.pack(self._request, job, self._capabilities)
        if not self.stands.done():
            self.stands.set_result(None)
        return await self._gate

    def _note_end(self, task: asyncio.Task[tuple[str, BaseException | None]]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            error = task.result()[1]
        if self.stands.done():
            return
        if error is None:
            self.stands.set_result(None)
        else:
            self.stands.set_exception(error)
            self.stands.exception()  # it is read from the task, or after another one's not at all


async def _until_waiting(chains: list[_Chain]) -> None:
    """Raises what a chain raises before it waits."""
    if chains:
        stands = [chain.stands for chain in chains]
        await asyncio.wait(stands, return_when=asyncio.FIRST_EXCEPTION)
    for position, chain in enumerate(chains):
        if chain.task.done():
            try:
                chain.result()
            except BaseException as error:
                add_position(error, position)
                raise


async def _until_ended(chains: list[_Chain]) -> None:
    if chains:
        await asyncio.wait([chain.task for chain in chains])


async def _give_up(chains: list[_Chain], cause: BaseException) -> None:
    """End the chains and wait for their ends, but for none after another cancellation."""
    for chain in chains:
        chain.give_up(cause)
    try:
        await _until_ended(chains)
    except asyncio.CancelledError:
        for chain in chains:
            chain.task.cancel()
        raise
