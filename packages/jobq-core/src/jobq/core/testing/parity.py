"""What tells a sync class from its async twin, beyond the `await` before its calls.

def test_the_twins_are_alike():
    assert differences(SomeQueue, AsyncSomeQueue, documented={"claim"}) == []
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

CLASS = "the class"
"""The class's own docstring, in `documented`."""

_AWAITED_NAMES = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
_COMPARED = {"__init__", *_AWAITED_NAMES, *_AWAITED_NAMES.values()}


def differences(
    plain: type,
    twin: type,
    *,
    unawaited: Collection[str] = (),
    added: Collection[str] = (),
    parameters: Mapping[str, Collection[str]] | None = None,
    documented: Collection[str] = (),
) -> list[str]:
    """One line for each public name, signature, annotation and docstring that isn't the same.

    Every method of the twin is awaited but for `unawaited`. `added` are names, and `parameters`
    those of one name, that the twin alone has; the docstrings of `documented` names differ. What is
    excused and needn't be is a difference, too. In annotations and docstrings an `Async` at the
    front of a name counts for nothing.
    """
    extra = parameters or {}
    names, twins = _public(plain), _public(twin)
    pairs = {name: _pair(plain, twin, name) for name in sorted(names & twins)}
    unlike = {name for name, (one, other) in pairs.items() if type(one) is not type(other)}
    texts = {CLASS: (plain, twin), **pairs}
    return [
        *(f"{name}: only {plain.__name__} has it" for name in sorted(names - twins)),
        *_excused("only the twin has it", twins - names, added),
        *(f"{name}: of another kind in the twin" for name in sorted(unlike)),
        *(
            line
            for name in sorted({*pairs} - unlike)
            for line in _signatures(name, *pairs[name], extra.get(name, ()))
        ),
        *_excused(
            "the twin's isn't awaited",
            {name for name, (_, other) in pairs.items() if _is_unawaited(name, other)},
            unawaited,
        ),
        *_excused(
            "another docstring",
            {name for name, (one, other) in texts.items() if _text(one) != _text(other)},
            documented,
        ),
    ]


def _excused(what: str, found: Collection[str], excused: Collection[str]) -> Iterator[str]:
    for name in sorted({*found} - {*excused}):
        yield f"{name}: {what}"
    for name in sorted({*excused} - {*found}):
        yield f"{name}: excused ({what}), and needn't be"


def _public(kind: type) -> set[str]:
    """The names that a class and its bases define, those of the sync protocol for both colours."""
    names = {name for base in kind.__mro__ if base is not object for name in vars(base)}
    sync = {awaited: name for name, awaited in _AWAITED_NAMES.items()}
    return {sync.get(name, name) for name in names if not name.startswith("_") or name in _COMPARED}


def _pair(plain: type, twin: type, name: str) -> tuple[Any, Any]:
    awaited = _AWAITED_NAMES.get(name, name)
    return inspect.getattr_static(plain, name), inspect.getattr_static(twin, awaited)


def _function(attribute: Any) -> Any:
    if isinstance(attribute, property):
        return attribute.fget
    return getattr(attribute, "__func__", attribute)


def _is_unawaited(name: str, attribute: Any) -> bool:
    if name == "__init__" or isinstance(attribute, property):
        return False
    function = _function(attribute)
    return callable(function) and not inspect.iscoroutinefunction(function)


def _signatures(name: str, plain: Any, twin: Any, extra: Collection[str]) -> Iterator[str]:
    functions = _function(plain), _function(twin)
    if not all(map(callable, functions)):
        return
    one, other = map(_spelt, functions)
    for parameter in sorted({*extra} - {*other}):
        yield f"{name}: excused parameter {parameter!r}, which the twin hasn't"
    other = {key: value for key, value in other.items() if key not in extra}
    if list(one.items()) != list(other.items()):
        yield f"{name}: {list(one.values())}, in the twin {list(other.values())}"


def _spelt(function: Any) -> dict[str, str]:
    """Each parameter with its kind, annotation and default as text, and what is returned."""
    signature = inspect.signature(function)
    spelt: dict[str, str] = {}
    for name, parameter in signature.parameters.items():
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        annotation = _annotation(parameter.annotation)
        spelt[name] = f"{parameter.kind.description} {name}: {annotation}{default}"
    return {**spelt, "return": f"-> {_annotation(signature.return_annotation)}"}


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _synchronous(text)


def _text(owner: Any) -> str:
    return _synchronous(inspect.getdoc(owner) or "")


def _synchronous(text: str) -> str:
    return " ".join(re.sub(r"\bAsync(?=[A-Z])", "", text).split())
