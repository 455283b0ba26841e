"""What the core offers is what its `__all__` says."""

import inspect

import jobq.core


def test_all_names_are_there_sorted_and_once() -> None:
    names = jobq.core.__all__

    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(jobq.core, name)] == []


def test_whatever_is_imported_into_the_core_is_offered() -> None:
    bound = {
        name
        for name, value in vars(jobq.core).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }

    assert bound == set(jobq.core.__all__)


def test_the_names_of_the_design_are_offered() -> None:
    design = """
    AsyncQueue AsyncQueueGroup Attribute BackendError BackendNotInstalledError ConfigurationError
    DelayTooLongError ExtendResult InvalidMessageError Job JobContext JobMiddleware JobRequest
    JobqError Lease LeaseLostError Message MessageTooLargeError NonRetryableError PublishBatchError
    PublishResult Queue QueueGroup QueueInfo QueueNotFoundError QueueOperations QueueStats
    RetryAfter RetryPolicy SettleResult UnknownQueueError UnsupportedFeatureError current_job
    """

    assert set(design.split()) <= set(jobq.core.__all__)


def test_public_classes_and_functions_say_what_they_are() -> None:
    undocumented = [
        name
        for name in jobq.core.__all__
        if not (inspect.getdoc(getattr(jobq.core, name)) or "").strip()
    ]

    assert undocumented == []
