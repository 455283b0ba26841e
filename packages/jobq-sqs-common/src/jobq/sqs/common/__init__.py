"""What both SQS backends share: requests and replies as plain data."""
