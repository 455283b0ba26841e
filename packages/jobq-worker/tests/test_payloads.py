"""What of a discarded payload may stand in a log line."""

import json
from typing import Any

from working import lease

from jobq.worker.payloads import payload_text, size_of


def text_of(payload: Any, *sensitive: str) -> str:
    body = json.dumps({"job_type": "a", "payload": payload})
    return payload_text(body, frozenset(sensitive))


def test_sensitive_fields_are_masked_at_every_depth() -> None:
    payload = {
        "user": 7,
        "password": "1",
        "cards": [{"token": {"number": "2"}, "kind": "x"}, [{"password": ["3"]}]],
    }
    assert json.loads(text_of(payload, "password", "token")) == {
        "user": 7,
        "password": "***",
        "cards": [{"token": "***", "kind": "x"}, [{"password": "***"}]],
    }


def test_it_is_cut_at_4_kib_and_never_inside_a_character() -> None:
    text = text_of({"a": "\u20ac" * 10_000})
    assert 4093 < len(text.encode()) <= 4096
    assert set(text[len('{"a": "') :]) == {"\u20ac"}


def test_text_that_no_output_could_write_is_spelled_out() -> None:
    assert text_of({"a": "\ud800"}) == '{"a": "\\ud800"}'


def test_the_size_of_a_message_counts_its_attributes() -> None:
    assert size_of(lease("12345", attributes={"n": 7, "b": b"xyz"})) == 5 + 8 + 10
