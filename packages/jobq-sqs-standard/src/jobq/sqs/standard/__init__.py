"""jobq on SQS standard queues."""

from jobq.sqs.standard.backend import backend
from jobq.sqs.standard.queue import SqsStandardQueue

__all__ = ["SqsStandardQueue", "backend"]
