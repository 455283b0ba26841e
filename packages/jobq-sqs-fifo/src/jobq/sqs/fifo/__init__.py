"""jobq on SQS FIFO queues."""
