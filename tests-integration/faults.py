"""What a proxy does to requests: refusals of whole calls, and of single entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqs_proxy import Forward, Intercept, Reply, Request, Wire, refusal

SENDS = ("SendMessage", "SendMessageBatch")
DELETES = ("DeleteMessage", "DeleteMessageBatch")
EXTENSIONS = ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch")

Concerns = Callable[[Request], bool]


def is_send(request: Request) -> bool:
    return request.operation in SENDS


def is_delete(request: Request) -> bool:
    return request.operation in DELETES


def is_extension(request: Request) -> bool:
    return request.operation in EXTENSIONS and all(
        entry["VisibilityTimeout"] > 0 for entry in request.entries
    )


def refuse_first(times: int, concerns: Concerns, code: str, *, status: int = 400) -> Intercept:
    """Refuse so many of the calls that `concerns` picks; the server sees none of these."""
    left = times

    def intercept(request: Request, forward: Forward) -> Reply:
        nonlocal left
        if left and concerns(request):
            left -= 1
            return refusal(code, status=status)
        return forward(request)

    return intercept


def refuse_entry_once(
    concerns: Concerns,
    picks: Callable[[dict[str, Any]], bool],
    code: str,
    *,
    sender: bool = True,
) -> Intercept:
    """Refuse one entry, the first that `picks` picks, of a batch; the server sees the others.

    `sender`: whether that is said to be the sender's own fault.
    """
    done = False

    def intercept(request: Request, forward: Forward) -> Reply:
        nonlocal done
        if done or not concerns(request):
            return forward(request)
        picked = [entry for entry in request.entries if picks(entry)]
        if not picked:
            return forward(request)
        done = True
        (refused,) = picked
        others = [entry for entry in request.entries if entry is not refused]
        reply = Reply(200, {"Successful": [], "Failed": []})
        if others:
            reply = forward(replace(request, body={**request.body, "Entries": others}))
        failure = {"Id": refused["Id"], "Code": code, "SenderFault": sender, "Message": code}
        failed = [*reply.failed, failure]
        return replace(reply, body={**reply.body, "Failed": failed})

    return intercept


class _Broken(Exception):  # noqa: N818 - nothing went wrong here
    """Carries what a client is sent past whoever waits for a reply."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire = wire


def both(first: Intercept, second: Intercept) -> Intercept:
    """`second` stands behind `first`; where it breaks the connection, that is what comes of it."""

    def intercept(request: Request, forward: Forward) -> Reply | Wire:
        def behind(passed: Request) -> Reply:
            answer = second(passed, forward)
            if isinstance(answer, Wire):
                raise _Broken(answer)
            return answer

        try:
            return first(request, behind)
        except _Broken as broken:
            return broken.wire

    return intercept
