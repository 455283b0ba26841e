"""What an SDK raised or a reply said, as the error that a caller can decide on."""

from __future__ import annotations

from typing import Any

import pytest

from jobq.core import BackendError, ConfigurationError, LeaseLostError, QueueNotFoundError
from jobq.sqs.common import faults
from jobq.sqs.common.calls import Call

CALL = Call("delete_message_batch", {"QueueUrl": "https://sqs/1/orders"})


class ServiceError(Exception):
    """Shaped as SDKs shape a refusal."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


def refused(code: str, message: str = "", status: int = 400) -> Any:
    return faults.error_of(faults.read(ServiceError(code, message, status)), CALL)


@pytest.mark.parametrize(
    "code",
    [
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "com.amazonaws.sqs#QueueDoesNotExist",
        "InvalidAddress",
    ],
)
def test_p9_a_missing_queue_is_one_error_however_it_is_spelled(code: str) -> None:
    error = refused(code, "The specified queue does not exist.")
    assert type(error) is QueueNotFoundError
    assert not error.retryable
    assert str(error) == (
        f"DeleteMessageBatch on queue 'orders' failed: {code}: The specified queue does not exist; "
        "there is no such queue under this account, region and endpoint: check them and the name, "
        "or create the queue"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
        ("MessageNotInflight", ""),
        ("AWS.SimpleQueueService.MessageNotInflight", ""),
        (
            "InvalidParameterValue",
            "Value AQEB for parameter ReceiptHandle is invalid. Reason: The receipt handle expired",
        ),
        (
            "InvalidParameterValueException",
            "Reason: Message does not exist or is not available for visibility timeout change.",
        ),
    ],
)
def test_a_bad_receipt_is_a_lost_lease(code: str, message: str) -> None:
    assert type(refused(code, message)) is LeaseLostError


def test_a_timeout_beyond_the_12_hours_is_no_lost_lease() -> None:
    error = refused(
        "InvalidParameterValue",
        "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout "
        "for the message is beyond the limit [43200 seconds].",
    )
    assert type(error) is BackendError
    assert not error.retryable


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("RequestThrottled", 400),
        ("KmsThrottled", 400),
        ("OverLimit", 403),
        ("ThrottlingException", 400),
        ("AWS.SimpleQueueService.PurgeQueueInProgress", 403),
        ("SomethingNew", 429),
    ],
)
def test_a_throttle_says_so(code: str, status: int) -> None:
    error = refused(code, status=status)
    assert (error.retryable, error.throttled, error.denied) == (True, True, False)
    assert error.code == code


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        ("AccessDenied", "", "grant this role sqs:DeleteMessage on"),
        ("AccessDeniedException", "", "sqs:DeleteMessage"),
        ("KmsAccessDenied", "", "KMS key"),
        ("KmsDisabled", "", "enabled"),
        ("InvalidSecurity", "", "HTTPS"),
        ("InvalidClientTokenId", "", "credentials"),
        ("UnrecognizedClientException", "", "credentials"),
        ("SignatureDoesNotMatch", "Check your AWS Secret Access Key", "credentials"),
    ],
)
def test_what_an_operator_must_grant_is_denied(code: str, message: str, remedy: str) -> None:
    error = refused(code, message, 403)
    assert (error.retryable, error.denied) == (False, True)
    assert remedy in str(error)


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        ("ExpiredToken", "The security token is expired", "expired"),
        ("ExpiredTokenException", "", "expired"),
        ("RequestExpired", "", "clock"),
        ("SignatureDoesNotMatch", "Signature expired: 1 is now earlier than 2", "clock"),
        ("InvalidSignatureException", "Signature not yet current: 2 is still later", "clock"),
    ],
)
def test_what_passes_by_itself_is_retryable_and_not_denied(
    code: str, message: str, remedy: str
) -> None:
    error = refused(code, message, 403)
    assert (error.retryable, error.denied) == (True, False)
    assert remedy in str(error)


@pytest.mark.parametrize(("status", "retryable"), [(500, True), (503, True), (400, False)])
def test_an_unknown_code_goes_by_its_status(status: int, retryable: bool) -> None:  # noqa: FBT001
    assert refused("NewInTheService", "said so", status).retryable is retryable


@pytest.mark.parametrize("status", [301, 400, 403, 404, 500, 503])
def test_an_answer_without_a_code_is_not_from_sqs_and_worth_another_try(status: int) -> None:
    error = refused(str(status), "<html>\n  an error page " + "x" * 1000, status)
    assert error.retryable
    assert not error.denied
    assert "endpoint is one of SQS" in str(error)
    assert len(str(error)) < 500
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("entry", "retryable", "kind"),
    [
        ({"Code": "InternalError", "SenderFault": False}, True, BackendError),
        ({"Code": "Unheard", "SenderFault": False}, True, BackendError),
        ({"Code": "Unheard", "SenderFault": True}, False, BackendError),
        ({"Code": "RequestThrottled", "SenderFault": True}, True, BackendError),
        ({"Code": "AccessDenied", "SenderFault": False}, False, BackendError),
        ({"Code": "ReceiptHandleIsInvalid", "SenderFault": True}, False, LeaseLostError),
        ({}, True, BackendError),
    ],
)
def test_an_entry_goes_by_its_code_and_then_by_whose_fault_it_is(
    entry: dict[str, Any],
    retryable: bool,  # noqa: FBT001
    kind: type[BackendError],
) -> None:
    error = faults.error_of(faults.read_entry(entry), CALL)
    assert isinstance(error, BackendError)
    assert type(error) is kind
    assert error.retryable is retryable


class HTTPClientError(Exception):
    """As botocore and aiobotocore name what went wrong below HTTP."""


@pytest.mark.parametrize(
    "said",
    [
        "Invalid header value b'FwoGZXIv\\n'",
        'Invalid header value b"FwoGZXIv\\n"',
        "Forbidden control character detected in headers. Potential header injection attack.",
    ],
)
def test_what_no_header_may_hold_are_credentials_and_never_shown(said: str) -> None:
    error = faults.error_of(faults.read(HTTPClientError(said)), CALL)
    assert isinstance(error, BackendError)
    assert (error.denied, error.retryable) == (True, False)
    assert "FwoG" not in str(error)


@pytest.mark.parametrize(
    "said", ["400, message: Invalid header value char", "Invalid header token"]
)
def test_headers_of_a_reply_that_cannot_be_read_are_worth_another_try(said: str) -> None:
    error = faults.error_of(faults.read(HTTPClientError(said)), CALL)
    assert isinstance(error, BackendError)
    assert (error.denied, error.retryable) == (False, True)


@pytest.mark.parametrize(
    ("name", "kind", "retryable", "denied"),
    [
        ("HTTPClientError", BackendError, True, False),
        ("ConnectionError", BackendError, True, False),
        ("NoCredentialsError", BackendError, False, True),
        ("SSOError", BackendError, False, True),
        ("CredentialRetrievalError", BackendError, True, False),
        ("ResponseParserError", BackendError, True, False),
        ("NoRegionError", ConfigurationError, None, None),
        ("ParamValidationError", ConfigurationError, None, None),
    ],
)
def test_an_sdk_s_own_exceptions_go_by_their_class_names(
    name: str,
    kind: type[Exception],
    retryable: bool | None,  # noqa: FBT001
    denied: bool | None,  # noqa: FBT001
) -> None:
    subclass = type("Special", (type(name, (Exception,), {}),), {})
    error = faults.error_of(faults.read(subclass("what it says")), CALL)
    assert type(error) is kind
    assert "what it says" in str(error)
    assert getattr(error, "retryable", None) is retryable
    assert getattr(error, "denied", None) is denied
