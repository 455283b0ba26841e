"""Finds the worker that a command line names."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobq.worker.worker import Worker

if TYPE_CHECKING:
    from types import ModuleType, TracebackType


class LoadError(click.ClickException):
    """There is no worker to run: what is wrong, and what to do."""

    exit_code = 2


def load_worker(target: str) -> Worker:
    """Import `MODULE:WORKER`, from the current directory first. Raises `LoadError`."""
    module_name, colon, name = target.partition(":")
    if not (colon and module_name and name):
        raise LoadError(
            f"{target!r} is no MODULE:WORKER: name a module and the variable in it that holds "
            "the worker, such as worker:worker"
        )
    if "/" in module_name or "\\" in module_name or module_name.startswith("."):
        raise LoadError(
            f"{module_name!r} is no module: name it as an import does, such as shop.worker"
        )
    module = _import(module_name)
    try:
        found = getattr(module, name)
    except AttributeError:
        raise LoadError(f"module {module_name!r} has no {name!r}: {_choices(module)}") from None
    if not isinstance(found, Worker):
        raise LoadError(
            f"{target} is of type {type(found).__name__}, no Worker: {_choices(module)}"
        )
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Another missing module is the fault of the application's own code, told below.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            ending = ", without its .py" * name.endswith(".py")
            raise LoadError(
                f"no module {error.name!r} in {here} or on the Python path: run jobq in the "
                f"directory that holds it, or correct its name{ending}"
            ) from None
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> LoadError:
    """With the traceback, since the remedy is in the application's own code."""
    frames = traceback.TracebackException(
        type(error), error, _application_frames(error.__traceback__)
    )
    said = "".join(frames.format())
    return LoadError(f"module {name!r} can't be imported; correct what it raised:\n\n{said}")


def _application_frames(frame: TracebackType | None) -> TracebackType | None:
    """Leave out our frames and the import system's, which lead to the application's."""
    ours = (__file__, importlib.__file__)
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if file not in ours and not file.startswith("<frozen importlib"):
            return frame
        frame = frame.tb_next
    return None


def _choices(module: ModuleType) -> str:
    workers = [name for name, value in vars(module).items() if isinstance(value, Worker)]
    if not workers:
        return "make one there, worker = Worker(queues, handlers)"
    return f"the workers there are {', '.join(workers)}"
