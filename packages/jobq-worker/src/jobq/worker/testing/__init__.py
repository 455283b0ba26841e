"""Test support: the fixtures `run_jobs` and `run_jobs_async` (a pytest plugin), and a group that
runs each job inside `enqueue`.

Nothing is imported here: what a test run pays for is what it uses.
"""
