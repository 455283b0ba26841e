"""Text and message attributes as SQS takes them, counts them and gives them back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobq.core.errors import InvalidMessageError
from jobq.core.message import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.core.message import AttributeValue

# SQS developer guide, "message attribute components" and "quotas related to messages".
MOST_ATTRIBUTES = 10
_MOST_DIGITS = 38
_LONGEST_NAME = 256
_NAME = re.compile(r"(?!\.)(?!.*\.\.)(?!.*\.\Z)(?!(?i:aws|amazon)\.)[A-Za-z0-9_.-]+\Z")
_DATA_TYPE = re.compile(r"(String|Number|Binary)(\.[^\s]{1,249})?\Z")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\Z", re.ASCII)
# SendMessage: bodies and string attributes are of the characters of XML 1.0; this is any other.
# A Number has at most 38 digits of precision (SQS developer guide, message attributes).
_INTEGER = re.compile(r"0|-?[1-9]\d{0,37}", re.ASCII)
REFUSED_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_text(what: str, text: object) -> None:
    """Raise `InvalidMessageError` for no text, an empty one, or a character SQS doesn't take."""
    problem = _text_problem(text)
    if problem:
        raise InvalidMessageError(f"{what} {problem}")


def _text_problem(text: object) -> str | None:
    if not isinstance(text, str):
        return f"is {text!r}, of type {type(text).__name__}: it takes a str"
    if not text:
        return "is empty: SQS takes at least one character"
    if found := REFUSED_CHARACTER.search(text):
        return (
            f"holds U+{ord(found[0]):04X} at position {found.start()}: SQS takes #x9, #xA, "
            "#xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF; escape or encode it"
        )
    return None


def spell_out(attributes: Mapping[str, AttributeValue]) -> dict[str, Attribute]:
    """Every attribute with its data type; raises `InvalidMessageError` naming one that is wrong."""
    check_count("a message", len(attributes))
    return {name: spell(name, value) for name, value in attributes.items()}


def spell(name: str, value: AttributeValue) -> Attribute:
    """One attribute with its data type; raises `InvalidMessageError` where it is wrong."""
    problem = _name_problem(name)
    if problem:
        raise InvalidMessageError(f"attribute name {name!r}: {problem}")
    data_type, content = _typed(name, value)
    typed = value if isinstance(value, Attribute) else None
    problem = _content_problem(data_type, content, plain=typed is None)
    if problem:
        raise InvalidMessageError(f"attribute {name!r} {problem}")
    return typed or Attribute(data_type, content)


def check_count(owner: str, count: int) -> None:
    """Raise `InvalidMessageError` where `owner`, a message, has more attributes than SQS takes."""
    if count > MOST_ATTRIBUTES:
        raise InvalidMessageError(
            f"{owner} takes {MOST_ATTRIBUTES} attributes, not {count}: put the rest into the body"
        )


def natural(attribute: Attribute) -> AttributeValue:
    """The plain value where nothing is lost by it, else the attribute as it is."""
    match attribute:
        case Attribute("String" | "Binary", value):
            return value
        case Attribute("Number", str(value)) if _INTEGER.fullmatch(value):
            return int(value)
        case _:
            return attribute


def message_size(body: str, attributes: Mapping[str, AttributeValue]) -> int:
    """Bytes as SQS counts a message: its body, and each attribute's name, data type and value."""
    return _length(body) + sum(attribute_size(name, value) for name, value in attributes.items())


def attribute_size(name: str, value: AttributeValue) -> int:
    data_type, content = _typed(name, value)
    return _length(name) + _length(data_type) + _length(content)


def _length(value: str | bytes) -> int:
    return len(value) if isinstance(value, bytes) or value.isascii() else len(value.encode())


def _typed(name: str, value: object) -> tuple[str, str | bytes]:
    """The data type that a value travels as, and what SQS is given of it."""
    if isinstance(value, str):
        return "String", value
    if isinstance(value, Attribute):
        return value.data_type, value.value
    if isinstance(value, bytes):
        return "Binary", value
    if isinstance(value, int) and not isinstance(value, bool):
        return "Number", _digits(name, value)
    raise InvalidMessageError(
        f"attribute {name!r} is {value!r}, of type {type(value).__name__}: "
        "it takes str, int, bytes or Attribute"
    )


def _digits(name: str, value: int) -> str:
    if abs(value) >= 10**_MOST_DIGITS:
        raise InvalidMessageError(
            f"attribute {name!r} is a number of more than {_MOST_DIGITS} digits: send it as a str"
        )
    return str(value)


def _name_problem(name: object) -> str | None:
    if isinstance(name, str) and len(name) <= _LONGEST_NAME and _NAME.match(name):
        return None
    return (
        f"SQS takes 1 to {_LONGEST_NAME} letters (A-Z, a-z), digits, '_', '-' and single inner "
        "'.', and no name that begins with 'AWS.' or 'Amazon.'"
    )


def _content_problem(data_type: str, value: str | bytes, *, plain: bool) -> str | None:
    """What is wrong with a value. One that was `plain` has the data type that goes with it."""
    if not (plain or _DATA_TYPE.match(data_type)):
        return (
            f"has data type {data_type!r}: SQS takes String, Number and Binary, each with a label "
            "after a '.' if need be"
        )
    if not value:
        return "is empty: SQS takes at least one character or byte; leave it out"
    if data_type.startswith("Binary"):
        if isinstance(value, bytes):
            return None
        return f"is {value!r}, of type {type(value).__name__}: Binary takes bytes"
    problem = _text_problem(value)
    if problem is None and not plain and data_type.startswith("Number"):
        problem = _number_problem(str(value))
    return problem


def _number_problem(value: str) -> str | None:
    digits = re.split("[eE]", value)[0].replace(".", "").lstrip("+-0")
    if _NUMBER.match(value) and len(digits) <= _MOST_DIGITS:
        return None
    return f"is the number {value!r}: SQS takes decimal notation with up to {_MOST_DIGITS} digits"
