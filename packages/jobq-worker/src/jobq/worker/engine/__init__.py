"""The worker's decisions, as a state machine without IO."""

from jobq.worker.engine.engine import PULSE_SECONDS, Engine

__all__ = ["PULSE_SECONDS", "Engine"]
