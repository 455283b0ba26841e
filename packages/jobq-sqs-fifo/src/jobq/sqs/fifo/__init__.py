"""jobq on SQS FIFO queues."""

from jobq.sqs.fifo.backend import backend
from jobq.sqs.fifo.queue import SqsFifoQueue

__all__ = ["SqsFifoQueue", "backend"]
