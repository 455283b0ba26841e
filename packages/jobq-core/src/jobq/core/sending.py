"""Sends what producers ask for, through their hooks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jobq.core.errors import ConfigurationError, JobqError, PublishBatchError
from jobq.core.logs import get_logger
from jobq.core.message import Message, PublishResult
from jobq.core.middleware import call_sync
from jobq.core.suspension import SuspendedCall, suspend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.interfaces.queue import Queue
    from jobq.core.job import Job
    from jobq.core.job_requests import JobRequest
    from jobq.core.middleware import Hook


class _Parcel(NamedTuple):
    job: Job
    message: Message


@dataclass(slots=True)
class _Item:
    """One job of a batch: a hook's answer, or a parcel with the chain that waits for its send."""

    answer: Any = None
    parcel: _Parcel | None = None
    call: SuspendedCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends to one queue, `name` in its group, through produce hooks."""

    name: str
    queue: Queue
    hooks: tuple[Hook, ...]

    def send(self, request: JobRequest) -> str:
        request.check(self.queue.capabilities)
        sent: list[str] = []

        def publish(job: Job) -> str:
            parcel = self._pack(request, job)
            sent.append(self.queue.publish(parcel.message))
            self._log_sent(parcel, sent[0])
            return sent[0]

        answer = call_sync(self.hooks, publish, request.to_job(self.name), queue=self.name)
        return self._message_id(answer, sent[0] if sent else None)

    def send_batch(self, requests: Sequence[JobRequest]) -> list[str]:
        """Send all or, where one is refused or a hook raises before the send, none.

        Every chain runs up to its `call_next` before the one batch call, each in its own copy of
        the caller's context, and on to its end after it.
        """
        items: list[_Item] = []
        try:
            for position, request in enumerate(requests):
                try:
                    request.check(self.queue.capabilities)
                    items.append(self._prepare(request))
                except BaseException as error:
                    error.add_note(f"nothing of the batch was sent: this is its item {position}")
                    raise
            parcels = [item.parcel for item in items if item.parcel is not None]
            results = self._publish(parcels)
        except BaseException as error:
            _give_up(items, error)
            raise
        return self._finish(items, results)

    def _prepare(self, request: JobRequest) -> _Item:
        job = request.to_job(self.name)
        if not self.hooks:
            return _Item(parcel=self._pack(request, job))
        call = suspend(self.hooks, job, queue=self.name)
        if call.calls_with is None:
            return _Item(answer=self._message_id(call.result, None))
        try:
            return _Item(parcel=self._pack(request, *call.calls_with), call=call)
        except BaseException as error:  # noqa: BLE001 - the hooks see it, and may answer for it
            return _Item(answer=self._message_id(call.fail(error), None))

    def _pack(self, request: JobRequest, job: Job) -> _Parcel:
        message, dropped = request.to_message(job, self.queue.capabilities.largest_message)
        if dropped:
            _say(
                "warning",
                "propagation_attributes_dropped",
                queue=self.name,
                job_type=job.job_type,
                dropped=dropped,
            )
        return _Parcel(job, message)

    def _publish(self, parcels: list[_Parcel]) -> list[PublishResult]:
        if not parcels:
            return []
        results = self.queue.publish_batch([parcel.message for parcel in parcels])
        for parcel, result in zip(parcels, results, strict=True):
            if result.message_id is not None:
                self._log_sent(parcel, result.message_id)
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
        errors = [result.error for result in results if result.error is not None]
        if errors:
            raise _batch_error(self.name, results) from (raised or errors)[0]
        if raised:
            raised[0].add_note(f"all {len(results)} messages of the batch had been sent by then")
            raise raised[0]
        return [result.message_id or "" for result in results]

    def _leave(
        self, call: SuspendedCall, result: PublishResult, raised: list[BaseException]
    ) -> PublishResult:
        """Run the rest of a chain: a hook may answer for a failed send, but loses no id."""
        try:
            if result.error is None:
                answer = call.resume(result.message_id)
            else:
                answer = call.fail(result.error)
            return PublishResult(self._message_id(answer, result.message_id))
        except BaseException as error:  # noqa: BLE001 - the other chains go on to their ends first
            raised.append(error)
            return result

    def _message_id(self, answer: object, sent: str | None) -> str:
        if isinstance(answer, str):
            return answer
        if sent is not None:
            return sent
        names = ", ".join(hook.name for hook in self.hooks)
        raise ConfigurationError(
            f"a produce hook ({names}) returned {answer!r} in place of a message id: "
            "return what call_next returned"
        )

    def _log_sent(self, parcel: _Parcel, message_id: str) -> None:
        _say(
            "info",
            "job_enqueued",
            queue=self.name,
            job_type=parcel.job.job_type,
            message_id=message_id,
            group_id=parcel.message.group_id,
        )


def _say(level: str, event: str, **fields: Any) -> None:
    # What was sent must not look unsent because a log can't be written.
    with suppress(Exception):
        getattr(get_logger("jobq.job"), level)(event, **fields)


def _give_up(items: list[_Item], cause: BaseException) -> None:
    """End the chains that wait for a send that will not be."""
    for item in items:
        if item.call is not None:
            error = JobqError(f"the batch was not sent: {type(cause).__name__}: {cause}")
            error.__cause__ = cause
            with suppress(BaseException):
                item.call.fail(error)


def _batch_error(queue: str, results: list[PublishResult]) -> PublishBatchError:
    failed = [(at, result.error) for at, result in enumerate(results) if result.error is not None]
    named = "; ".join(f"item {at}: {error}" for at, error in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return PublishBatchError(
        f"{len(failed)} of {len(results)} messages were not sent to queue {queue!r}: {named}{more}"
        "; send those again whose entry in .results has an error",
        results=results,
    )
