"""Names, URLs, and the suffix of FIFO queues."""

from __future__ import annotations

import pytest

from jobq.core import ConfigurationError
from jobq.sqs.common.addresses import Address, check_kind, full_name


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_a_fifo_queue_s_name_gets_its_suffix_once(name: str) -> None:
    assert full_name(name, fifo=True) == "orders.fifo"
    assert full_name(name, fifo=False) == name


@pytest.mark.parametrize(
    ("name_or_url", "fifo", "text"),
    [
        ("https://sqs/1/orders", True, "no FIFO queue's"),
        ("orders.fifo", False, "is a FIFO queue's"),
        ("https://sqs/1/", False, "queue name ''"),
        ("my orders", False, "'my orders'"),
        ("x" * 81, False, "1 to 80"),
    ],
)
def test_what_is_no_queue_of_the_kind_is_refused(name_or_url: str, fifo: bool, text: str) -> None:  # noqa: FBT001
    with pytest.raises(ConfigurationError, match=text):
        check_kind(name_or_url, fifo=fifo)


def test_a_url_is_used_as_it_is() -> None:
    address = Address("http://localhost:4566/000000000000/orders")
    assert address.name == "orders"
    with pytest.raises(StopIteration) as stop:
        next(address.url())
    assert stop.value.value == "http://localhost:4566/000000000000/orders"
