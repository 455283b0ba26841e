"""jobq on SQS standard queues."""
