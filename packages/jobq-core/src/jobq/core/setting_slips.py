"""Which key a name was meant to be that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# A letter left out of MAX_ATTEMPTS is 0.96, two that changed places in SQS_REGION are 0.9;
# SQS_QUEUE_NAME is 0.73 like SQS_QUEUE_PREFIX, and somebody's own.
_ALIKE = 0.85
# Of one word that two names share, these say too little to tell that the same thing is meant.
_VAGUE = frozenset({"SQS", "NAME", "QUEUE", "MAX", "SECONDS"})


def meant(name: str, keys: Sequence[str]) -> str | None:
    """That of `keys` from which `name` is a few letters or one whole word away; None: it is none.

    What only resembles a key is let pass: an application has variables of its own, and Kubernetes
    sets some for a service (`JOBQ_SQS_PORT` for one named jobq-sqs).
    """
    from difflib import get_close_matches

    alike = get_close_matches(name, keys, n=1, cutoff=_ALIKE)
    alike += [key for key in keys if _one_word_apart(name, key)]
    return alike[0] if alike else None


def _one_word_apart(name: str, key: str) -> bool:
    words, own = set(name.split("_")), set(key.split("_"))
    return len(words ^ own) == 1 and not words & own <= _VAGUE
