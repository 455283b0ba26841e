"""Test support: the fixtures `job_queues` and `async_job_queues` (a pytest plugin), and the suite
that every backend passes.

Nothing is imported here: what a test run pays for is what it uses.
"""
