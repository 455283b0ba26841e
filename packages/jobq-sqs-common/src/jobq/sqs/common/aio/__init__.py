"""The awaited twins: the same flows over clients of an event loop."""
