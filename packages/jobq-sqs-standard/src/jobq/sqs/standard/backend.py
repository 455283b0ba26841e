"""SQS standard queues by definition: the entry point `sqs-standard` of `jobq.backends`."""

from jobq.sqs.common.backend import SqsBackend
from jobq.sqs.standard.queue import SDK, SqsStandardQueue

backend = SqsBackend(SqsStandardQueue, sdk=SDK, fifo=False)
