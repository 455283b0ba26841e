"""Message attributes as SQS takes them and gives them back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobq.core.errors import InvalidMessageError
from jobq.core.message import Attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.core.message import AttributeValue

# SQS developer guide, "Message attribute components" and "quotas related to messages".
MOST_ATTRIBUTES = 10
_NAME = re.compile(r"(?!\.)(?!.*\.\.)(?!.*\.\Z)(?!(?i:aws|amazon)\.)[A-Za-z0-9_.-]{1,256}\Z")
_DATA_TYPE = re.compile(r"(String|Number|Binary)(\.[^\s]{1,249})?\Z")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\Z", re.ASCII)
_MOST_DIGITS = 38
# The characters of XML 1.0, which is what SQS allows in bodies and in string attributes.
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_text(what: str, text: object) -> None:
    """Raise `InvalidMessageError` for no text, an empty one, or a character SQS doesn't take."""
    if not isinstance(text, str):
        raise InvalidMessageError(
            f"{what} is {text!r}, of type {type(text).__name__}: it takes a str"
        )
    if not text:
        raise InvalidMessageError(f"{what} is empty: SQS takes at least one character")
    if found := _ILLEGAL.search(text):
        raise InvalidMessageError(
            f"{what} holds U+{ord(found[0]):04X} at position {found.start()}: SQS takes #x9, #xA, "
            "#xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF; escape or encode it"
        )


def spell_out(attributes: Mapping[str, AttributeValue]) -> dict[str, Attribute]:
    """Every attribute with its data type; raises `InvalidMessageError` naming one that is wrong."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise InvalidMessageError(
            f"a message takes {MOST_ATTRIBUTES} attributes, not {len(attributes)}: "
            "put the rest into the body"
        )
    spelled = {name: _spell(name, value) for name, value in attributes.items()}
    for name, attribute in spelled.items():
        _check(name, attribute)
    return spelled


def natural(attribute: Attribute) -> AttributeValue:
    """The plain value where nothing is lost by it, else the attribute as it is."""
    match attribute:
        case Attribute("String" | "Binary", value):
            return value
        case Attribute("Number", str(value)) if re.fullmatch(r"0|-?[1-9]\d*", value, re.ASCII):
            return int(value)
        case _:
            return attribute


def size(attributes: Mapping[str, Attribute]) -> int:
    """Bytes that attributes count with: name, data type and value of each."""
    return sum(
        len(name.encode()) + len(attribute.data_type.encode()) + len(_value_bytes(attribute))
        for name, attribute in attributes.items()
    )


def _value_bytes(attribute: Attribute) -> bytes:
    value = attribute.value
    return value.encode() if isinstance(value, str) else value


def _spell(name: str, value: object) -> Attribute:
    match value:
        case Attribute():
            return value
        case bool():
            pass
        case str():
            return Attribute("String", value)
        case int():
            return Attribute("Number", _digits(name, value))
        case bytes():
            return Attribute("Binary", value)
        case _:
            pass
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


def _check(name: str, attribute: Attribute) -> None:
    if not _NAME.match(name):
        raise InvalidMessageError(
            f"attribute name {name!r}: SQS takes 1 to 256 of A-Z, a-z, 0-9, '_', '-' and single "
            "inner '.', and no name that begins with 'AWS.' or 'Amazon.'"
        )
    if not _DATA_TYPE.match(attribute.data_type):
        raise InvalidMessageError(
            f"attribute {name!r} has data type {attribute.data_type!r}: SQS takes String, Number "
            "and Binary, each with a label after a '.' if need be"
        )
    if attribute.data_type.startswith("Binary"):
        _check_binary(name, attribute.value)
        return
    check_text(f"attribute {name!r}", attribute.value)
    if attribute.data_type.startswith("Number"):
        _check_number(name, attribute.value)


def _check_binary(name: str, value: object) -> None:
    if not isinstance(value, bytes) or not value:
        raise InvalidMessageError(
            f"attribute {name!r} of type Binary is {value!r}: it takes at least one byte"
        )


def _check_number(name: str, value: str | bytes) -> None:
    value = str(value)
    digits = re.split("[eE]", value)[0].replace(".", "").lstrip("+-0")
    if not _NUMBER.match(value) or len(digits) > _MOST_DIGITS:
        raise InvalidMessageError(
            f"attribute {name!r} is the number {value!r}: SQS takes decimal notation with up to "
            f"{_MOST_DIGITS} digits"
        )
