"""Sends what producers ask for, through their hooks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobq.core.message import PublishResult
from jobq.core.middleware import call_sync
from jobq.core.parcels import Packing, Parcel, add_position, unsent
from jobq.core.suspension import SuspendedCall, suspend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.interfaces.queue import Queue
    from jobq.core.job import Job
    from jobq.core.job_requests import JobRequest


@dataclass(slots=True)
class _Item:
    """One job of a batch: a hook's answer, or a parcel with the chain that waits for its send."""

    answer: Any = None
    parcel: Parcel | None = None
    call: SuspendedCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends to one queue through produce hooks."""

    packing: Packing
    queue: Queue

    def send(self, request: JobRequest) -> str:
        packing, capabilities = self.packing, self.queue.capabilities
        sent: list[str] = []

        def publish(job: Job) -> str:
            parcel = packing.pack(request, job, capabilities)
            sent.append(self.queue.publish(parcel.message))
            packing.log_sent(parcel, sent[0])
            return sent[0]

        job = packing.open(request, capabilities)
        answer = call_sync(packing.hooks, publish, job, queue=packing.name)
        return packing.message_id(answer, sent[0] if sent else None)

    def send_batch(self, requests: Sequence[JobRequest]) -> list[str]:
        """Send all or, where one is refused or a hook raises before the send, none.

        Every chain runs up to its `call_next` before the one batch call, each in its own copy of
        the caller's context, and on to its end after it.
        """
        jobs = self.packing.open_all(requests, self.queue.capabilities)
        items: list[_Item] = []
        try:
            for position, (request, job) in enumerate(zip(requests, jobs, strict=True)):
                try:
                    items.append(self._prepare(request, job))
                except BaseException as error:
                    add_position(error, position)
                    raise
            results = self._publish([item.parcel for item in items if item.parcel is not None])
        except BaseException as error:
            _give_up(items, error)
            raise
        return self._finish(items, results)

    def _prepare(self, request: JobRequest, job: Job) -> _Item:
        packing, capabilities = self.packing, self.queue.capabilities
        if not packing.hooks:
            return _Item(parcel=packing.pack(request, job, capabilities))
        call = suspend(packing.hooks, job, queue=packing.name)
        if call.calls_with is None:
            return _Item(answer=packing.message_id(call.result, None))
        (passed_on,) = call.calls_with
        try:
            return _Item(parcel=packing.pack(request, passed_on, capabilities), call=call)
        except BaseException as error:  # noqa: BLE001 - the hooks see it, and may answer for it
            return _Item(answer=packing.message_id(call.fail(error), None))

    def _publish(self, parcels: list[Parcel]) -> list[PublishResult]:
        if not parcels:
            return []
        results = self.queue.publish_batch([parcel.message for parcel in parcels])
        self.packing.log_all_sent(parcels, results)
        return results

    def _finish(self, items: list[_Item], sent: list[PublishResult]) -> list[str]:
        outcomes = iter(sent)
        results: list[PublishResult] = []
        raised: list[BaseException] = []
        for item in items:
            if item.parcel is None:
                results.append(PublishResult(item.answer))
                continue
            result = next(outcomes)
            if item.call is not None:
                result = self._leave(item.call, result, raised)
            results.append(result)
        return self.packing.message_ids(results, raised)

    def _leave(
        self, call: SuspendedCall, result: PublishResult, raised: list[BaseException]
    ) -> PublishResult:
        """Run the rest of a chain: a hook may answer for a failed send, but loses no id."""
        try:
            if result.error is None:
                answer = call.resume(result.message_id)
            else:
                answer = call.fail(result.error)
            return PublishResult(self.packing.message_id(answer, result.message_id))
        except BaseException as error:  # noqa: BLE001 - the other chains go on to their ends first
            raised.append(error)
            return result


def _give_up(items: list[_Item], cause: BaseException) -> None:
    """End the chains that wait for a send that will not be."""
    for item in items:
        if item.call is not None:
            with suppress(BaseException):
                item.call.fail(unsent(cause))
