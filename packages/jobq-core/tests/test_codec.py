"""Bodies: what is sent comes back, and what anyone may have sent raises nothing."""

import json
import time
from collections import OrderedDict
from enum import StrEnum
from math import inf, nan
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobq.core import InvalidMessageError
from jobq.core.codec import DEEPEST_NESTING, Decoded, Malformed, decode_body, encode_body

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def reason(body: str) -> str:
    result = decode_body(body)
    assert isinstance(result, Malformed)
    return result.reason


@given(st.text(min_size=1), st.dictionaries(st.text(), VALUES))
def test_what_is_encoded_is_decoded_to_the_same(job_type: str, payload: dict[str, Any]) -> None:
    assert decode_body(encode_body(job_type, payload)) == Decoded(job_type, payload)


@given(st.text(st.characters(exclude_categories=()), min_size=1))
@example("\x00\x0b\x1f\x7f\ud800\udfff\ufffe\uffff\U0001fffe")
def test_a_body_holds_only_characters_that_sqs_takes(text: str) -> None:
    body = encode_body("t", {text: text})
    for character in body:
        code = ord(character)
        assert (
            code in (0x9, 0xA, 0xD)
            or 0x20 <= code <= 0xD7FF
            or 0xE000 <= code <= 0xFFFD
            or code >= 0x10000
        )
    assert body.encode()


@pytest.mark.parametrize("text", ["\x00", "\x1b", "\ud800", "\ufffe", "\uffff", "é\U0001f600"])
def test_characters_that_sqs_refuses_travel_all_the_same(text: str) -> None:
    assert decode_body(encode_body("t", {"text": text})) == Decoded("t", {"text": text})


def test_a_body_is_compact_and_keeps_letters_as_they_are() -> None:
    assert encode_body("grüßen", {"a": [1, "ß"]}) == '{"job_type":"grüßen","payload":{"a":[1,"ß"]}}'


def test_no_payload_is_an_empty_one() -> None:
    assert decode_body(encode_body("t", None)) == Decoded("t", {})


def test_mappings_tuples_and_enums_of_text_are_sent_as_json() -> None:
    class Colour(StrEnum):
        RED = "red"

    ordered: OrderedDict[str, str] = OrderedDict(c=Colour.RED)
    payload: MappingProxyType[str, Any] = MappingProxyType({"a": (1, 2), "b": ordered})

    assert decode_body(encode_body("t", payload)) == Decoded("t", {"a": [1, 2], "b": {"c": "red"}})


@pytest.mark.parametrize(
    ("payload", "place", "what"),
    [
        ({"a": {1: 2}}, "payload.a", "the key 1, a int"),
        ({"a": [0, {"b": nan}]}, "payload.a[1].b", "nan"),
        ({"a": -inf}, "payload.a", "-inf"),
        ({"at": object}, "payload.at", "is a type"),
        ({"a": {"b": {2, 3}}}, "payload.a.b", "is a set"),
        ({None: 1}, "payload", "the key None, a NoneType"),
        ({"a": b"x"}, "payload.a", "is a bytes"),
        ({"a": nested(DEEPEST_NESTING)}, "payload.a[0]", f"deeper than {DEEPEST_NESTING} levels"),
        ({"a": 10**5000}, "job type 'report'", "4300 digits"),
    ],
)
def test_a_payload_that_is_no_json_is_refused_by_place_and_type(
    payload: Any, place: str, what: str
) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        encode_body("report", payload)

    assert "'report'" in str(caught.value)
    assert place in str(caught.value)
    assert what in str(caught.value)


def test_a_payload_that_holds_itself_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["me"] = payload

    with pytest.raises(InvalidMessageError, match="deeper than"):
        encode_body("t", payload)


@pytest.mark.parametrize("payload", [[1], "text", 3, b"{}", {"a"}])
def test_a_payload_that_is_no_mapping_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidMessageError, match=f"not {type(payload).__name__}"):
        encode_body("t", payload)


@pytest.mark.parametrize("job_type", ["", None, 3, b"t"])
def test_a_job_type_that_is_no_text_is_refused(job_type: Any) -> None:
    with pytest.raises(InvalidMessageError, match="job_type must be a non-empty string"):
        encode_body(job_type, {})


@given(
    st.text(st.characters(exclude_categories=())) | st.binary().map(lambda b: b.decode("latin1"))
)
@example('{"job_type":"t","payload":{"n":1e999}}')
@example('{"a":"\\ud800"}')
def test_decoding_never_raises(body: str) -> None:
    assert isinstance(decode_body(body), Decoded | Malformed)


@given(VALUES)
def test_decoding_never_raises_for_json_of_any_shape(value: Any) -> None:
    assert isinstance(decode_body(json.dumps(value)), Decoded | Malformed)


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ("hi", "not JSON"),
        ("", "not JSON"),
        ("\ufeff{}", "not JSON"),
        ('{"job_type":"t","payload":{}', "not JSON"),
        ("[]", "no JSON object"),
        ("null", "no JSON object"),
        ('"t"', "no JSON object"),
        ('{"payload":{}}', "job_type"),
        ('{"job_type":null,"payload":{}}', "job_type"),
        ('{"job_type":7,"payload":{}}', "job_type"),
        ('{"job_type":"t"}', "payload"),
        ('{"job_type":"t","payload":null}', "payload"),
        ('{"job_type":"t","payload":[]}', "payload"),
        ('{"job_type":"t","payload":{"a":NaN}}', "number"),
        ('{"job_type":"t","payload":{"a":-Infinity}}', "number"),
        ('{"job_type":"t","payload":{"a":%s}}' % ("9" * 5000), "number"),
        ('{"Type":"Notification","TopicArn":"arn","Message":"{}"}', "raw message delivery"),
        ('{"Records":[{"eventSource":"aws:s3"}]}', "job_type"),
    ],
)
def test_a_body_that_can_never_run_is_malformed_and_says_why(body: str, because: str) -> None:
    assert because in reason(body)


@pytest.mark.parametrize(
    "body",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"job_type":"t","payload":' + '{"a":' * 10_000 + "1" + "}" * 10_001,
        "[" * 1_048_576,
        '\\"' * 500_000 + "[" * 101,
        '"' + "[" * 1_048_000,
    ],
    ids=["arrays", "objects", "a MiB of [", "quotes without an end", "a string without an end"],
)
def test_m1_a_body_made_to_hurt_is_malformed_within_a_moment(body: str) -> None:
    started = time.process_time()

    assert isinstance(decode_body(body), Malformed)
    assert time.process_time() - started < 0.5


def test_brackets_inside_text_do_not_count_as_depth() -> None:
    payload = {"text": "[{" * 500 + '"[' * 500 + "\\"}

    assert decode_body(encode_body("t", payload)) == Decoded("t", payload)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    payload = {"rows": [{"a": [i]} for i in range(1000)]}

    assert decode_body(encode_body("t", payload)) == Decoded("t", payload)


def test_the_deepest_payload_that_is_sent_is_also_read_and_one_level_more_is_neither() -> None:
    payload = {"a": nested(DEEPEST_NESTING - 2)}
    assert decode_body(encode_body("t", payload)) == Decoded("t", payload)

    assert "deeper" in reason(
        json.dumps({"job_type": "t", "payload": {"a": nested(DEEPEST_NESTING - 1)}})
    )


@given(st.text(min_size=6, alphabet="xyz"))
def test_a_reason_never_quotes_the_body(secret: str) -> None:
    for body in (
        secret,
        f'{{"job_type":["{secret}"],"payload":{{}}}}',
        f'{{"job_type":"t","payload":"{secret}"}}',
        f'{{"{secret}":"\\{secret}"}}',
    ):
        assert secret not in reason(body)


def test_of_a_key_that_comes_twice_the_last_counts_and_further_keys_are_ignored() -> None:
    body = '{"job_type":"a","version":2,"payload":{"n":1,"n":2},"job_type":"b"}'

    assert decode_body(body) == Decoded("b", {"n": 2})
