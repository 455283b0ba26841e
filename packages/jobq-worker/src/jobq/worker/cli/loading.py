"""Finds the worker that a command line names."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from jobq.core import JobqError
from jobq.worker.worker import Worker

if TYPE_CHECKING:
    from types import FrameType, ModuleType, TracebackType


class LoadError(click.ClickException):
    """There is no worker to run: what is wrong, and what to do."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"jobq worker: {self.message}", file, err=True)


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
    except JobqError as error:
        raise _refused(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> LoadError:
    """With the traceback, since the remedy is in the application's own code."""
    frames = traceback.TracebackException(
        type(error), error, _application_frames(error.__traceback__)
    )
    said = "".join(frames.format())
    return LoadError(f"module {name!r} can't be imported; correct what it raised:\n\n{said}")


def _refused(name: str, error: JobqError) -> LoadError:
    """Such an error says what to do; of the traceback, where it was asked for is worth telling."""
    return LoadError(f"{_place_of(error.__traceback__) or f'module {name!r}'}: {error}")


def _place_of(frame: TracebackType | None) -> str | None:
    """FILE:LINE of the application's last call, before jobq's own code began."""
    place, frame = None, _application_frames(frame)
    while frame is not None and not _is_jobq(frame.tb_frame):
        if not _is_import(frame.tb_frame):
            place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def _application_frames(frame: TracebackType | None) -> TracebackType | None:
    """Leave out our frames and the import system's, which lead to the application's."""
    while frame is not None:
        if frame.tb_frame.f_code.co_filename != __file__ and not _is_import(frame.tb_frame):
            return frame
        frame = frame.tb_next
    return None


def _is_import(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file == importlib.__file__ or file.startswith("<frozen importlib")


def _is_jobq(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").startswith("jobq.")


def _choices(module: ModuleType) -> str:
    workers = [name for name, value in vars(module).items() if isinstance(value, Worker)]
    if not workers:
        return "make one there, worker = Worker(queues, handlers)"
    return f"the workers there are {', '.join(workers)}"
