"""The key of a call in a store."""

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxelim.engine import REVISION
from jaxelim.errors import ArgumentError
from jaxelim.text import name_of, text_of

_APART = ("instance", "runs", "noise", "engine")
"""Arguments that count otherwise, or as the layout of the work not at all."""


def described(call: Any) -> dict[str, Any]:
    """The arguments that decide the numbers of a run, by name, but for the instance's numbers."""
    one = call.instance
    parts = {name: value for name, value in call.fields.items() if name not in _APART}
    return {"family": one.family, "source": one.source, **parts}


def key_of(call: Any) -> str:
    """The key of a call in a store: a hash of all that determines the numbers of a run.

    Given noise counts with the runs that it is for. Classes outside jaxelim count with
    their sources.
    """
    told: dict[str, Any] = {"revision": REVISION}
    sources: dict[str, str] = {}
    for name, value in described(call).items():
        told[name] = text_of(name, value)
        for kind in _foreign(value):
            if not isinstance(kind, type):
                allowed = "with a store, numbers, strings, arrays and dataclasses of these"
                raise ArgumentError(name, value, allowed, "a function's value does not identify it")
            sources[name_of(kind)] = _source(name, kind)
    one = call.instance
    arrays = [one.arms, one.theta, *([] if one.costs is None else [one.costs])]
    arrays += [] if call.noise is None else [call.noise, call.runs]
    text = json.dumps(told | {"sources": sources, "arrays": len(arrays)}, sort_keys=True)
    return sha256(*arrays, text=text)[:20]


def sha256(*arrays: np.ndarray, text: str = "") -> str:
    """A hash of arrays and a text."""
    total = hashlib.sha256(text.encode())
    for array in arrays:
        plain = np.ascontiguousarray(array + 0.0, "<f8")  # -0.0 is 0.0
        total.update(str(plain.shape).encode() + plain.tobytes())
    return total.hexdigest()


def _foreign(value: Any) -> Iterator[Any]:
    """The functions, and the classes outside jaxelim with their bases, that a value holds."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _foreign(entry)
    elif isinstance(value, Mapping):
        yield from _foreign(list(value.values()))
    elif inspect.isroutine(value):
        yield value
    elif not isinstance(value, np.ndarray | np.generic):
        for kind in type(value).__mro__:
            if kind.__module__.partition(".")[0] not in ("jaxelim", "builtins", "typing", "abc"):
                yield kind
        for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
            yield from _foreign(getattr(value, field.name))


def _source(argument: str, kind: type) -> str:
    """A hash of a class's source."""
    try:
        return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:20]
    except (OSError, TypeError) as error:
        allowed = "with a store, a class whose source is in a file"
        raise ArgumentError(argument, kind, allowed, str(error)) from error
