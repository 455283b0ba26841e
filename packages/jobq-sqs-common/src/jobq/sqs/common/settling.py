"""Flows that delete messages, give them back and keep them.

Batches make one try an entry and give its error as data: when another is worth it, for how long,
and whether the lease must be extended meanwhile, is the worker's decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.core import BackendError, ExtendResult, SettleResult
from jobq.sqs.common import batches, replies, requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.core import JobqError, Lease
    from jobq.sqs.common.addresses import Address
    from jobq.sqs.common.calls import Call, Flow

_DONE = SettleResult()


def ack(address: Address, lease: Lease) -> Flow[None]:
    yield requests.delete((yield from address.url()), lease)


def ack_batch(address: Address, leases: Sequence[Lease]) -> Flow[list[SettleResult]]:
    return (yield from _settle(address, leases, requests.delete_batch))


def nack(address: Address, lease: Lease, seconds: int) -> Flow[None]:
    yield requests.change_visibility((yield from address.url()), lease, seconds)


def nack_batch(address: Address, leases: Sequence[Lease], seconds: int) -> Flow[list[SettleResult]]:
    def request(url: str, positions: range, leases: Sequence[Lease]) -> Call:
        return requests.change_visibility_batch(url, positions, leases, seconds)

    return (yield from _settle(address, leases, request))


def _settle(
    address: Address,
    leases: Sequence[Lease],
    request: Callable[[str, range, Sequence[Lease]], Call],
) -> Flow[list[SettleResult]]:
    results: list[SettleResult] = []
    for positions in batches.by_count(len(leases)):
        errors = yield from _errors(address, positions, leases, request)
        for position in positions:
            error = errors[position]
            results.append(_DONE if error is None else SettleResult(error))
    return results


def _errors(
    address: Address,
    positions: range,
    leases: Sequence[Lease],
    request: Callable[[str, range, Sequence[Lease]], Call],
) -> Flow[dict[int, JobqError | None]]:
    try:
        call = request((yield from address.url()), positions, leases)
        reply = yield call
    except BackendError as error:
        return dict.fromkeys(positions, error)
    return replies.errors(reply, call)


def extend(
    address: Address, lease: Lease, seconds: int, *, clock: Callable[[], float]
) -> Flow[Lease]:
    """The lease with its new `expires_at`, dated when the request was sent."""
    url = yield from address.url()
    sent = clock()
    yield requests.change_visibility(url, lease, seconds)
    return replace(lease, expires_at=sent + seconds)


def extend_batch(
    address: Address, leases: Sequence[Lease], seconds: int, *, clock: Callable[[], float]
) -> Flow[list[ExtendResult]]:
    def request(url: str, positions: range, leases: Sequence[Lease]) -> Call:
        return requests.change_visibility_batch(url, positions, leases, seconds)

    results: list[ExtendResult] = []
    for positions in batches.by_count(len(leases)):
        sent = clock()
        errors = yield from _errors(address, positions, leases, request)
        for position in positions:
            error = errors[position]
            results.append(
                ExtendResult(replace(leases[position], expires_at=sent + seconds))
                if error is None
                else ExtendResult(error=error)
            )
    return results
