"""Jobs and messages, queues and groups of them, middleware: what the rest of jobq builds on."""

from jobq.core.aio import AsyncQueueGroup
from jobq.core.clients import AsyncClientSource, ClientSource
from jobq.core.context import JobContext, current_job
from jobq.core.definitions import QueueDefinition
from jobq.core.errors import (
    BackendError,
    BackendNotInstalledError,
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    JobqError,
    LeaseLostError,
    MessageTooLargeError,
    NonRetryableError,
    PublishBatchError,
    QueueNotFoundError,
    UnknownQueueError,
    UnsupportedFeatureError,
)
from jobq.core.interfaces import (
    AsyncQueue,
    AsyncQueueOperations,
    Finding,
    MoveProgress,
    Queue,
    QueueOperations,
)
from jobq.core.job import Job
from jobq.core.job_requests import JobRequest
from jobq.core.message import (
    Attribute,
    Capabilities,
    ExtendResult,
    Lease,
    Message,
    PublishResult,
    QueueInfo,
    QueueStats,
    SettleResult,
)
from jobq.core.middleware import JobMiddleware
from jobq.core.queue_group import QueueGroup
from jobq.core.retries import RetryAfter, RetryPolicy

__all__ = [
    "AsyncClientSource",
    "AsyncQueue",
    "AsyncQueueGroup",
    "AsyncQueueOperations",
    "Attribute",
    "BackendError",
    "BackendNotInstalledError",
    "Capabilities",
    "ClientSource",
    "ConfigurationError",
    "DelayTooLongError",
    "ExtendResult",
    "Finding",
    "InvalidMessageError",
    "Job",
    "JobContext",
    "JobMiddleware",
    "JobRequest",
    "JobqError",
    "Lease",
    "LeaseLostError",
    "Message",
    "MessageTooLargeError",
    "MoveProgress",
    "NonRetryableError",
    "PublishBatchError",
    "PublishResult",
    "Queue",
    "QueueDefinition",
    "QueueGroup",
    "QueueInfo",
    "QueueNotFoundError",
    "QueueOperations",
    "QueueStats",
    "RetryAfter",
    "RetryPolicy",
    "SettleResult",
    "UnknownQueueError",
    "UnsupportedFeatureError",
    "current_job",
]
