"""Runs jobs: receives them from queues, calls the handler that each one names, settles them."""

from jobq.worker.handlers import Handler, HandlerFunction
from jobq.worker.worker import Worker, run_worker

__all__ = ["Handler", "HandlerFunction", "Worker", "run_worker"]
