"""Errors: one root, and facts to decide on as data."""

import inspect

import pytest

import jobq.core
from jobq.core import (
    BackendError,
    ConfigurationError,
    InvalidMessageError,
    JobqError,
    LeaseLostError,
    MessageTooLargeError,
    NonRetryableError,
    PublishBatchError,
    PublishResult,
    QueueNotFoundError,
    RetryAfter,
)


def test_every_error_of_ours_has_one_root_and_what_handlers_raise_has_not() -> None:
    errors = {
        value
        for value in map(jobq.core.__dict__.get, jobq.core.__all__)
        if inspect.isclass(value) and issubclass(value, Exception)
    }

    assert {error for error in errors if not issubclass(error, JobqError)} == {
        NonRetryableError,
        RetryAfter,
    }


@pytest.mark.parametrize("error", [QueueNotFoundError, LeaseLostError, PublishBatchError])
def test_what_a_service_answers_is_a_backend_error(error: type[Exception]) -> None:
    assert issubclass(error, BackendError)


def test_a_configuration_error_is_a_value_error_and_a_large_message_an_invalid_one() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(MessageTooLargeError, InvalidMessageError)


def test_a_backend_error_says_no_more_than_it_was_told() -> None:
    error = BackendError("away")
    assert (error.retryable, error.throttled, error.denied, error.code) == (
        False,
        False,
        False,
        None,
    )


def test_a_batch_is_worth_a_retry_only_where_all_that_failed_is() -> None:
    sent = PublishResult("id")
    busy = PublishResult(error=BackendError("busy", retryable=True, throttled=True))
    denied = PublishResult(error=BackendError("denied", denied=True))
    invalid = PublishResult(error=InvalidMessageError("bad"))

    assert PublishBatchError("x", results=[sent, busy, busy]).retryable
    assert not PublishBatchError("x", results=[busy, denied]).retryable
    assert not PublishBatchError("x", results=[busy, invalid]).retryable
    assert PublishBatchError("x", results=[busy, denied]).throttled
    assert PublishBatchError("x", results=[busy, denied]).denied
    assert PublishBatchError("x", results=[sent, busy]).results == (sent, busy)
