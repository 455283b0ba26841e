"""Attributes into SQS's types and back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.core import Attribute, InvalidMessageError
from jobq.core.attributes import message_size, natural, spell_out

plain_values = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
        lambda text: not set(text) & {"\ufffe", "\uffff"}
    ),
    st.integers(min_value=1 - 10**38, max_value=10**38 - 1),
    st.binary(min_size=1),
)


@given(plain_values)
def test_a_plain_value_comes_back_as_it_was(value: str | int | bytes) -> None:
    back = natural(spell_out({"name": value})["name"])
    assert back == value
    assert type(back) is type(value)


@given(st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{1,10})?", fullmatch=True))
def test_a_number_becomes_an_int_only_where_that_changes_nothing(text: str) -> None:
    value = natural(Attribute("Number", text))
    if isinstance(value, int):
        assert str(value) == text
    else:
        assert "." in text or str(int(text)) != text
        assert value == Attribute("Number", text)


@pytest.mark.parametrize("number", ["1", "-1.5", "+.5", "1.", "1e10", "1E-128", "0" * 60 + "1"])
def test_decimal_notation_is_a_number(number: str) -> None:
    spell_out({"n": Attribute("Number", number)})


@pytest.mark.parametrize("number", ["", "x", "1_0", "٣", "0x1", "nan", "1e", "1" * 39, "1\n", " 1"])
def test_other_notations_are_none(number: str) -> None:
    with pytest.raises(InvalidMessageError, match="'n'"):
        spell_out({"n": Attribute("Number", number)})


@pytest.mark.parametrize("name", ["a", "A.b-c_d.9", "a.b-c_D.9", "x" * 256, "awsome", "aws_x"])
def test_a_name_may_hold_what_sqs_takes(name: str) -> None:
    spell_out({name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 257, ".a", "a.", "a..b", "AWS.a", "aws.a", "Amazon.a", "amazon.a"),
        *("a b", "ä", "é", "a\n", 7),
    ],
)
def test_a_name_may_hold_nothing_else(name: Any) -> None:
    text = re.escape(f"attribute name {name!r}: SQS takes 1 to 256 letters")
    with pytest.raises(InvalidMessageError, match=text):
        spell_out({name: "x"})


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "None, of type NoneType: it takes str"),
        (True, "True, of type bool: it takes str"),
        (1.5, "1.5, of type float: it takes str"),
        (["x"], "of type list"),
        (10**38, "more than 38 digits: send it as a str"),
        ("", "is empty.* leave it out"),
        (b"", "is empty.* leave it out"),
        ("a\x00", r"U\+0000 at position 1: .* escape or encode it"),
        ("\ud800", r"U\+D800 at position 0"),
        (Attribute("Text", "x"), "has data type 'Text'"),
        (Attribute("string", "x"), "has data type 'string'"),
        (Attribute("", "x"), "has data type ''"),
        (Attribute("String.", "x"), "has data type 'String.'"),
        (Attribute("String", ""), "is empty"),
        (Attribute("String", b"x"), "b'x', of type bytes"),
        (Attribute("Binary", "x"), "'x', of type str: Binary takes bytes"),
        (Attribute("Binary", b""), "is empty"),
        (Attribute("Number", b"1"), "b'1', of type bytes"),
    ],
)
def test_a_value_that_sqs_refuses_is_refused_with_the_attribute_s_name(
    value: Any, what: str
) -> None:
    with pytest.raises(InvalidMessageError, match=f"'name' .*{what}"):
        spell_out({"name": value})


def test_the_size_counts_names_types_and_values_in_bytes() -> None:
    attributes = {"né": Attribute("String", "ü"), "b": Attribute("Binary", b"\0\0")}
    assert message_size("é", attributes) == 2 + (3 + 6 + 2) + (1 + 6 + 2)


def test_sizes_are_bytes_of_body_names_types_and_values() -> None:
    assert message_size("é", {}) == 2
    assert message_size("", {"ü": "ß"}) == 2 + len("String") + 2
    assert message_size("", {"n": -12}) == 1 + len("Number") + 3
    assert message_size("", {"b": b"\x00\x01"}) == 1 + len("Binary") + 2
    assert message_size("", {"f": Attribute("Number.float", "1.50")}) == 1 + 12 + 4


def test_a_number_of_more_digits_than_sqs_takes_stays_as_it_came() -> None:
    endless = Attribute("Number", "1" * 5000)
    assert natural(endless) is endless
    assert natural(Attribute("Number", "1" * 38)) == int("1" * 38)
