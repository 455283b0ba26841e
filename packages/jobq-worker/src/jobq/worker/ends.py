"""How the jobs of a queue may end that never succeed, by the retry policies of all levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from jobq.core.retries import DEFAULT_RETRY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobq.core import QueueInfo, RetryPolicy
    from jobq.worker.handlers import Handler
    from jobq.worker.options import Options
    from jobq.worker.subscriptions import AnySubscription


class Warn(Protocol):
    """Takes an event's name and its fields."""

    def __call__(self, event: str, **fields: Any) -> None: ...


def resolve(*levels: RetryPolicy | None) -> RetryPolicy:
    """The policy that counts, all filled in; `levels` go from the nearest to the farthest."""
    policy = DEFAULT_RETRY
    for level in reversed(levels):
        policy = policy if level is None else level.over(policy)
    return policy


class Ends:
    """What becomes of one queue's messages that are given up."""

    def __init__(
        self, subscription: AnySubscription, handlers: Mapping[str, Handler], options: Options
    ) -> None:
        self._name = subscription.name
        self._dead_letter = subscription.definition.dead_letter
        self._on_malformed = options.on_malformed
        route = subscription.route
        farther = (route.retry, options.retry, route.environment_retry)
        self._policies = {
            job_type: resolve(handler.retry, *farther) for job_type, handler in handlers.items()
        }

    def need_dead_letters(self) -> str | None:
        """Why the queue needs a dead-letter queue, None where it needs none."""
        if self._on_malformed == "dead_letter":
            return "on_malformed='dead_letter' sends malformed messages to one"
        types = self._types(lambda policy: policy.when_exhausted == "dead_letter")
        if not types:
            return None
        return (
            f"the retry policy of job type {', '.join(map(repr, types))} has "
            "when_exhausted='dead_letter', which sends exhausted jobs to one"
        )

    def warn_of_what_never_comes(self, info: QueueInfo, warn: Warn) -> None:
        """Say where there is no redrive policy, and where it or `when_exhausted` never counts."""
        most = info.max_receive_count
        if most is None:
            warn(
                "no_redrive_policy",
                queue=self._name,
                remedy=f"a job that {self._endless()} comes back until its message expires: "
                "give the queue a redrive policy with a dead-letter queue",
            )
            return
        aside = self._types(lambda one: _ends_within(one, most) and self._ends_aside(one, info))
        if aside:
            warn(
                "redrive_policy_never_reached",
                queue=self._name,
                max_receive_count=most,
                job_types=aside,
                remedy="by their retry policy these jobs end before, and not in the dead-letter "
                "queue of the redrive policy: where they should, use when_exhausted='redrive'",
            )
        taken = self._types(lambda one: _ends_after(one, most))
        if taken:
            warn(
                "max_attempts_never_reached",
                queue=self._name,
                max_receive_count=most,
                job_types=taken,
                remedy="the redrive policy takes these jobs before their when_exhausted counts: "
                "lower max_attempts, or raise maxReceiveCount",
            )

    def _endless(self) -> str:
        """What no retry policy ends."""
        ended = [one for one in self._policies.values() if one.when_exhausted != "redrive"]
        all_ended = len(ended) == len(self._policies) and all(one.max_attempts for one in ended)
        return "ends its worker each time" if all_ended else "always fails"

    def _types(self, which: Callable[[RetryPolicy], bool]) -> list[str]:
        return sorted(job_type for job_type, policy in self._policies.items() if which(policy))

    def _ends_aside(self, policy: RetryPolicy, info: QueueInfo) -> bool:
        """Its exhausted jobs go to no dead-letter queue, or not to the redrive policy's."""
        if policy.when_exhausted != "dead_letter" or self._dead_letter is None:
            return policy.when_exhausted == "discard"
        own = self._dead_letter.rpartition("/")[2]
        return own != (info.dead_letter_queue or "").rpartition(":")[2]


def _ends_within(policy: RetryPolicy, receives: int) -> bool:
    return policy.max_attempts is not None and policy.max_attempts <= receives


def _ends_after(policy: RetryPolicy, receives: int) -> bool:
    attempts = policy.max_attempts or 0
    return policy.when_exhausted != "redrive" and attempts > receives
