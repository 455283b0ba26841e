"""What is needed of an SDK, and what it raises as errors of ours."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jobq.core import ConfigurationError
from jobq.sqs.common import faults
from jobq.sqs.common.calls import Call
from jobq.sqs.common.client import ClientOptions

_CONNECT = Call("connect", {})
# What botocore's parser lets through where a reply's JSON, or its text, is of another shape.
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
# What a lookup of credentials lets through: a token's file that is gone, a process that can't be
# started, credentials that had expired when they came. What a request raises is the SDK's own.
_LOOKUP = (OSError, RuntimeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """An SDK's functions and classes, blocking or awaited.

    `core` makes botocore's session, `session` the SDK's around it, `config` the options of a
    client; `raised` is what they and their clients raise.
    """

    core: Callable[[], Any]
    session: Callable[..., Any]
    config: Callable[..., Any]
    raised: tuple[type[Exception], ...]

    def make_client(self, options: ClientOptions) -> Any:
        """An SQS client on a session of its own: boto3's default one isn't safe to make clients
        with from several threads at once.
        """
        return self.make_session(options).client("sqs", **self.arguments(options))

    def make_session(self, options: ClientOptions) -> Any:
        """A session with botocore's own chain of credentials, whose lookups `options` bound."""
        core = self.core()
        core.set_default_client_config(self.config(**options.lookups))
        return self.session(botocore_session=core)

    def arguments(self, options: ClientOptions) -> dict[str, Any]:
        """What a session's `client` takes beside the service's name."""
        return {
            "region_name": options.region_name,
            "endpoint_url": options.endpoint_url,
            "config": self.config(**options.config),
        }

    def client(self, options: ClientOptions) -> Any:
        """A client. Raises `ConfigurationError` where none can be made with these options,
        `BackendError` where looking up its credentials failed.
        """
        with self.connecting():
            return self.make_client(options)

    @contextmanager
    def connecting(self) -> Generator[None]:
        """Translates what making a client raises."""
        try:
            yield
        # ValueError is botocore's for an endpoint that is no URL.
        except (*self.raised, ValueError) as error:
            raise faults.error_of(faults.read(error), _CONNECT) from error
        except _LOOKUP as error:
            raise faults.error_of(faults.lookup_failed(error), _CONNECT) from error

    @contextmanager
    def calling(self, call: Call) -> Generator[None]:
        """Translates what a client's method raises."""
        try:
            yield
        except self.raised as error:
            raise faults.error_of(faults.read(error), call) from error
        except _UNREADABLE as error:
            raise faults.unreadable(error, call) from error
        except _LOOKUP as error:
            raise faults.error_of(faults.lookup_failed(error), call) from error

    def of_a_callable(self, error: ConfigurationError) -> Exception:
        """What to raise where a caller's callable made no client: for want of credentials it may
        later, and then it is no mistake of the caller's.
        """
        if isinstance(error.__cause__, self.raised):
            fault = faults.read(error.__cause__)
            if fault.kind != "setup":
                found = faults.error_of(fault, _CONNECT)
                found.__cause__ = error.__cause__
                return found
        return error
