"""What an adopter's `make_queue` returns, from the one call that makes a queue of its backend."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from jobq.core.testing.conformance.async_view import LoopThread, SyncView

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core.interfaces import Queue
    from jobq.core.testing.conformance.bench import MakeQueue


def queue_maker(create: Callable[..., Queue], **options: Any) -> MakeQueue:
    """A maker of new queues: `create` is called with a name that no other has, with
    `visibility_timeout`, `dead_letter_queue` and `max_receive_count`, and with `options`.
    """
    prefix, numbers = uuid4().hex, count(1)

    def make(
        *,
        visibility_timeout: int = 30,
        dead_letter_queue: Queue | None = None,
        max_receive_count: int | None = None,
    ) -> Queue:
        return create(
            f"{prefix}-{next(numbers)}",
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            max_receive_count=max_receive_count,
            **options,
        )

    return make


def async_queue_maker(create: Callable[..., Any], loop: LoopThread, **options: Any) -> MakeQueue:
    """The same for async queues: `create` is called on `loop`, awaited there if need be, and gets
    an async queue for its `dead_letter_queue`.
    """

    def view(name: str, *, dead_letter_queue: SyncView | None, **more: Any) -> Queue:
        target = None if dead_letter_queue is None else dead_letter_queue.queue
        return SyncView(loop.call(create, name, dead_letter_queue=target, **more), loop)

    return queue_maker(view, **options)
