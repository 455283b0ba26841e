"""SQS FIFO queues by definition: the entry point `sqs-fifo` of `jobq.backends`."""

from jobq.sqs.common.backend import SqsBackend
from jobq.sqs.fifo.queue import SDK, SqsFifoQueue

backend = SqsBackend(SqsFifoQueue, sdk=SDK, fifo=True)
