"""The body of a message: `{"job_type": "…", "payload": {…}}` as UTF-8 JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn, cast

from jobq.core.attributes import REFUSED_CHARACTER
from jobq.core.errors import InvalidMessageError

# Parsers differ in how deep they go; this keeps every reader far from its own limit.
DEEPEST_NESTING = 100

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body that a handler may be found for."""

    job_type: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Malformed:
    """A body that can never be run. `reason` quotes nothing of it, so it may be logged."""

    reason: str


def encode_body(job_type: str, payload: Mapping[str, Any] | None) -> str:
    """The body that `decode_body` reads back; no payload means an empty one.

    Tuples travel as lists. Raises `InvalidMessageError`, naming the place, for what isn't JSON.
    """
    if not isinstance(job_type, str) or not job_type:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessageError(f"job_type must be a non-empty string, not {job_type!r}")
    if payload is None:
        payload = {}
    if not isinstance(payload, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidMessageError(
            f"the payload of job type {job_type!r} must be a mapping with string keys, "
            f"not {type(payload).__name__}: wrap it, such as {{'value': …}}"
        )
    return encode_json({"job_type": job_type, "payload": dict(payload)}, f"job type {job_type!r}")


def encode_json(value: dict[str, Any], owner: str) -> str:
    """Compact JSON in characters that SQS takes. Raises `InvalidMessageError` naming `owner`."""
    problem = _problem(value, DEEPEST_NESTING)
    if problem is not None:
        path, what = problem
        if len(path) > 200:
            path = f"{path[:200]}…"
        raise InvalidMessageError(f"{owner}: {path.removeprefix('.')} {what}")
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessageError(f"{owner} can't be written as JSON: {error}") from error
    if text.isascii():
        return text
    return REFUSED_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def decode_body(body: str) -> Decoded | Malformed:
    """Read a body that anyone may have written; raises for none.

    Of a key that comes twice the last counts, and further keys are ignored.
    """
    content = decode_json(body)
    if isinstance(content, Malformed):
        return content
    if not isinstance(content, dict):
        return Malformed("the body is no JSON object")
    fields = cast("dict[str, Any]", content)
    job_type = fields.get("job_type")
    if not isinstance(job_type, str):
        if fields.get("Type") == "Notification" and "TopicArn" in fields:
            return Malformed(
                "the body is an SNS notification; turn on raw message delivery for the subscription"
            )
        return Malformed("job_type is missing or no string")
    payload = fields.get("payload")
    if not isinstance(payload, dict):
        return Malformed("payload is missing or no JSON object")
    return Decoded(job_type, cast("dict[str, Any]", payload))


def decode_json(text: str) -> object:
    """What the text holds, or `Malformed`."""
    # Counting is fast and enough for nearly all: only a text with more brackets can be too deep.
    if text.count("[") + text.count("{") > DEEPEST_NESTING and _too_deep(text):
        return Malformed(f"nested deeper than {DEEPEST_NESTING} arrays and objects")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        return Malformed(f"not JSON (at character {error.pos} of {len(text)})")
    except ValueError:
        return Malformed("it holds a number that JSON doesn't have (NaN) or that is too long")
    except RecursionError:
        return Malformed("nested too deep for the stack that was left")


def _too_deep(text: str) -> bool:
    depth = 0
    for token in _BRACKETS.finditer(text):
        if token.lastindex == 1:
            depth += 1
            if depth > DEEPEST_NESTING:
                return True
        elif token.lastindex == 2:
            depth -= 1
    return False


def _problem(value: object, levels: int) -> tuple[str, str] | None:
    """Where and what JSON can't hold; json itself would turn keys into text silently."""
    if isinstance(value, _SCALARS):
        return None
    if isinstance(value, float):
        if isfinite(value):
            return None
        return "", f"is {value!r}, which is no JSON number: send null or text"
    if levels == 0:
        return "", f"is nested deeper than {DEEPEST_NESTING} levels"
    if isinstance(value, dict):
        return _problem_of_items(cast("dict[object, object]", value).items(), levels - 1)
    if isinstance(value, list | tuple):
        return _problem_of_items(enumerate(cast("list[object]", value)), levels - 1)
    return "", f"is a {type(value).__name__}, which is no JSON: make it text or a number first"


def _problem_of_items(
    items: Iterable[tuple[object, object]], levels: int
) -> tuple[str, str] | None:
    in_object = not isinstance(items, enumerate)
    for key, item in items:
        if in_object and not isinstance(key, str):
            return "", f"has the key {key!r}, a {type(key).__name__}: keys must be strings"
        if isinstance(item, _SCALARS):
            continue
        problem = _problem(item, levels)
        if problem is not None:
            step = f".{key}" if in_object else f"[{key}]"
            return step + problem[0], problem[1]
    return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_SCALARS = (str, int, type(None))
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
