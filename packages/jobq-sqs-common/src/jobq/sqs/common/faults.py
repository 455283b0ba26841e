"""Faults of a call: what an SDK raised or a reply entry said, as plain data, then as an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from jobq.core import BackendError, ConfigurationError, LeaseLostError, QueueNotFoundError
from jobq.sqs.common.calls import Call

Kind: TypeAlias = Literal["reply", "connection", "credentials", "refresh", "setup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`reply`: the service answered so, with its `code` and HTTP `status`. `connection`: no answer
    came. `credentials`: there are none. `refresh`: looking them up failed. `setup`: the client
    can't be made or used at all. But for `reply`, `code` is the exception's own name.

    `operation` is AWS's name of what was answered: on the way to SQS, credentials are asked for.
    """

    kind: Kind
    code: str
    text: str
    status: int | None = None
    sender: bool | None = None
    operation: str | None = None


# API reference of SQS, "Common errors" and each operation's; both protocols' spellings, without
# the prefixes that `_plain` takes off.
_MISSING = {"NonExistentQueue", "QueueDoesNotExist"}
_LOST = {"ReceiptHandleIsInvalid", "MessageNotInflight"}
_THROTTLED = {
    "BandwidthLimitExceeded",
    "KmsThrottled",
    "LimitExceededException",
    "OverLimit",
    "PurgeQueueInProgress",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttled",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
# Credentials that refresh, and clocks that are put right: the same call may succeed later.
_PASSING = {
    "ExpiredToken",
    "ExpiredTokenException",
    "IDPCommunicationError",
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "QueueDeletedRecently",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "ServiceUnavailable",
}
_SIGNATURE = {"SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure"}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "UnrecognizedClientException",
}
# The code of errors about answers that no SQS gives.
UNKNOWN_REPLY = "UnknownReply"
# The code of errors of a client that was made while no credentials were found.
NO_CREDENTIALS = "NoCredentialsError"
_LONGEST_TEXT = 300
_DRIFTED = re.compile("expired|not yet current|is now (earlier|later)|skew", re.IGNORECASE)
# Of a request: http.client says so with the whole value, aiohttp without. What either says of a
# reply's headers sounds much like it, and is the server's fault.
_BAD_HEADER = re.compile(r"Invalid header (name|value) b['\"]|detected in headers")
_BAD_RECEIPT = re.compile(
    "receipt ?handle|not available for visibility timeout change", re.IGNORECASE
)
# Of the operations that jobq calls, STS's alone has this parameter: it is what the file holds.
_TOKEN = re.compile(r"\bparameter WebIdentityToken\b")

# Names of SDK exceptions, looked for among an exception's classes: this package imports no SDK.
_SDK_NAMES: dict[Kind, set[str]] = {
    "connection": {
        "ConnectionError",
        "HTTPClientError",
        "IncompleteReadError",
        "ResponseStreamingError",
    },
    # The parser's is about XML: STS answers in it, SQS doesn't.
    "refresh": {
        "CredentialRetrievalError",
        "MetadataRetrievalError",
        "ResponseParserError",
        "TokenRetrievalError",
    },
    "credentials": {
        "LoginError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "RefreshWithMFAUnsupportedError",
        "SSOError",
        "UnknownCredentialError",
    },
}


def read(error: BaseException) -> Fault:
    """What an SDK raised, as data."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        operation = getattr(error, "operation_name", None)
        return _read_response(cast("Mapping[str, Any]", response), operation)
    if _BAD_HEADER.search(str(error)):
        # All that comes from outside and goes into a header is secret, or a client's own config.
        return Fault(
            kind="credentials",
            code=type(error).__name__,
            text="they hold a line break, or another character that no header may have",
        )
    names = {cls.__name__ for cls in type(error).__mro__}
    kinds: list[Kind] = [kind for kind, known in _SDK_NAMES.items() if names & known]
    text = str(error)
    if "ParamValidationError" in names and _TOKEN.search(text):
        kinds = ["refresh"]
    if "ResponseParserError" in names:
        # The answer follows, and there may be a secret key in it.
        text = text.partition("\n")[0].rstrip(":")
    return Fault(kind=kinds[0] if kinds else "setup", code=type(error).__name__, text=_short(text))


def lookup_failed(error: Exception) -> Fault:
    """What a lookup of credentials let through that is none of the SDK's exceptions, as data."""
    return Fault(kind="refresh", code=type(error).__name__, text=_short(str(error)))


def _read_response(response: Mapping[str, Any], operation: str | None) -> Fault:
    error: Mapping[str, Any] = response.get("Error") or {}
    metadata: Mapping[str, Any] = response.get("ResponseMetadata") or {}
    return Fault(
        kind="reply",
        code=str(error.get("Code") or "Unknown"),
        text=_short(str(error.get("Message") or "")),
        status=metadata.get("HTTPStatusCode"),
        operation=operation,
    )


def _short(text: str) -> str:
    """On one line, and no whole error page of a proxy."""
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def read_entry(entry: Mapping[str, Any]) -> Fault:
    """One entry of a batch reply's `Failed`, as data."""
    return Fault(
        kind="reply",
        code=str(entry.get("Code") or "Unknown"),
        text=_short(str(entry.get("Message") or "")),
        sender=bool(entry.get("SenderFault")),
    )


def unreadable(error: Exception, call: Call) -> BackendError:
    """The error for an answer that the SDK itself stumbled over."""
    said = _short(f"{type(error).__name__}: {error}")
    return BackendError(
        f"{name_of(call.operation)} on {_target(call)} failed: the answer can't be read ({said}); "
        "try again, and check that the endpoint is one of SQS",
        retryable=True,
        code=UNKNOWN_REPLY,
    )


def error_of(fault: Fault, call: Call) -> BackendError | ConfigurationError:
    """The error to raise, or to put into a result, for a fault of `call`."""
    what = f"{name_of(call.operation)} on {_target(call)} failed"
    said = f"{fault.code}: {fault.text}" if fault.text else fault.code
    match fault.kind:
        case "setup":
            return ConfigurationError(f"{what}: {said}; {_setup_remedy(fault.code)}")
        case "connection":
            return BackendError(
                f"{what}: {said}; check the endpoint, the region and the network between",
                retryable=True,
                code=fault.code,
            )
        case "refresh":
            return BackendError(
                f"{what}: {said}; try again, and check {_origin(fault)}",
                retryable=True,
                code=fault.code,
            )
        case "credentials":
            return BackendError(
                f"{what}: {said}; give this process AWS credentials: a role, a profile, or "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                denied=True,
                code=fault.code,
            )
        case "reply":
            if fault.operation not in {None, name_of(call.operation)}:
                return _lookup_refused(fault, f"{what}: {fault.operation} failed: {said}")
            return _refusal(fault, what, said, call)


def _origin(fault: Fault) -> str:
    if _TOKEN.search(fault.text):
        return (
            "the token file that AWS_WEB_IDENTITY_TOKEN_FILE, or web_identity_token_file of the "
            "AWS profile, names: it is empty or cut short"
        )
    return "where the AWS credentials come from"


def _lookup_refused(fault: Fault, said: str) -> BackendError:
    """Not SQS answered so, but who gives the credentials: STS, or the SSO portal."""
    code = _plain(fault.code)
    throttled = code in _THROTTLED or fault.status == 429
    if throttled or code in _PASSING or (fault.status or 0) >= 500:
        return BackendError(
            f"{said}; try again, and check where the AWS credentials come from",
            retryable=True,
            throttled=throttled,
            code=fault.code,
        )
    return BackendError(
        f"{said}; check the role that this process is to have, and who may take it",
        denied=True,
        code=fault.code,
    )


def _refusal(fault: Fault, what: str, said: str, call: Call) -> BackendError:
    code = _plain(fault.code)
    if code in _MISSING or code == "InvalidAddress":
        return QueueNotFoundError(
            f"{what}: {said}; there is no such queue under this account, region and endpoint: "
            "check them and the name, or create the queue",
            code=fault.code,
        )
    if code in _LOST or (code.startswith("InvalidParameter") and _BAD_RECEIPT.search(fault.text)):
        return LeaseLostError(
            f"{what}: {said}; the lease ran out or the message was received anew: "
            "take a longer visibility timeout or extend in time",
            code=fault.code,
        )
    if code in _THROTTLED or fault.status == 429:
        return BackendError(
            f"{what}: {said}; slow down and try again",
            retryable=True,
            throttled=True,
            code=fault.code,
        )
    if code in _PASSING or (code in _SIGNATURE and _DRIFTED.search(fault.text)):
        return BackendError(
            f"{what}: {said}; try again{_passing_remedy(code)}", retryable=True, code=fault.code
        )
    if code in _DENIED or code in _SIGNATURE or code.startswith("Kms"):
        return BackendError(
            f"{what}: {said}; {_denied_remedy(code, call)}", denied=True, code=fault.code
        )
    if code.isdigit():
        # A status is all there is: a proxy's answer, or a web server's.
        return BackendError(
            f"{what}: {said}; try again, and check that the endpoint is one of SQS",
            retryable=True,
            code=fault.code,
        )
    if (fault.status or 0) >= 500 or fault.sender is False:
        return BackendError(
            f"{what}: {said}; the service's own fault, try again", retryable=True, code=fault.code
        )
    return BackendError(f"{what}: {said}; {_other_remedy(fault)}", code=fault.code)


def _plain(code: str) -> str:
    return code.rpartition("#")[2].removeprefix("AWS.SimpleQueueService.")


def name_of(operation: str) -> str:
    """The operation as AWS spells it: `send_message` is SendMessage."""
    return operation.title().replace("_", "")


def _target(call: Call) -> str:
    for key in ("QueueUrl", "QueueName", "SourceArn"):
        if key in call.arguments:
            return f"queue {re.split('[/:]', call.arguments[key])[-1]!r}"
    return "SQS"


def _setup_remedy(code: str) -> str:
    match code:
        case "NoRegionError":
            return "pass region_name= or set AWS_DEFAULT_REGION or a region in the AWS config"
        case "ProfileNotFound":
            return "set AWS_PROFILE to a profile that exists, or unset it"
        case _:
            return "check the client's region, endpoint and options"


def _passing_remedy(code: str) -> str:
    if code.startswith("Expired"):
        return ": the credentials have expired; they are read again when they refresh"
    if code in _SIGNATURE or code in {"RequestExpired", "RequestTimeTooSkewed"}:
        return ": set this machine's clock right"
    return ""


def _denied_remedy(code: str, call: Call) -> str:
    if code.startswith("Kms"):
        return "let this role use the queue's KMS key, and see that the key is enabled"
    if code.startswith(("AccessDenied", "Authorization", "NotAuthorized")):
        permission = name_of(call.operation).removesuffix("Batch")
        return f"grant this role sqs:{permission} on the queue, or check that the queue exists"
    if code == "InvalidSecurity":
        return "use HTTPS and Signature Version 4"
    return "check this process's AWS credentials"


def _other_remedy(fault: Fault) -> str:
    code = _plain(fault.code)
    if code in {"InvalidAction", "UnknownOperationException"}:
        return "this endpoint doesn't offer the operation"
    return "correct the request"
