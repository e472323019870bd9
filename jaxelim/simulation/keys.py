"""The key of a call in a store."""

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from jaxelim.checks import name_of
from jaxelim.engine import REVISION
from jaxelim.errors import ArgumentError
from jaxelim.simulation.results.descriptions import description_of, sha256

_DECIDE = ("problem", "rule", "stopping", "elimination", "threshold", "seed", "max_samples",
           "ridge", "record", "initial_pulls", "waiting")  # fmt: skip
"""The parts of a call that decide its numbers, beside the instance, deltas, noise and forms."""
_LAYOUT = ("lanes", "chunk", "devices", "shrink")
"""Fields of `Engine` that change no number."""


def key_of(call: Any) -> str:
    """The key of a call in a store: a hash of all that determines the numbers of a run.

    Given noise counts with the runs that it is for. Classes outside jaxelim count with
    their sources.

    Raises:
        ArgumentError: an argument that its value does not identify, such as a function.
    """
    told: dict[str, Any] = {"revision": REVISION, "deltas": call.deltas.tolist()}
    sources: dict[str, str] = {}
    one = call.instance
    parts = {name: getattr(call, name) for name in _DECIDE} | {"family": one.family}
    parts |= {} if one.source is None else {"source": one.source}
    for name, value in parts.items():
        told[name] = description_of(name, value)
        if _has_function(told[name]):
            allowed = "with a store, numbers, strings, arrays and dataclasses of these"
            raise ArgumentError(name, value, allowed, "a function's value does not identify it")
        for kind in _foreign(value):
            sources[name_of(kind)] = _source(name, kind)
    told |= {f"engine.{k}": v for k, v in vars(call.engine).items() if k not in _LAYOUT}
    arrays = [one.arms, one.theta, *([] if one.costs is None else [one.costs])]
    arrays += [] if call.noise is None else [call.noise, call.runs]
    text = json.dumps(told | {"sources": sources, "arrays": len(arrays)}, sort_keys=True)
    return sha256(*arrays, text=text)[:20]


def _has_function(description: Any) -> bool:
    if isinstance(description, dict):
        return "function" in description or any(map(_has_function, description.values()))
    return isinstance(description, list) and any(map(_has_function, description))


def _foreign(value: Any) -> Iterator[type]:
    """The classes outside jaxelim, with their bases, of a value and of all that it holds."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _foreign(entry)
    elif isinstance(value, Mapping):
        yield from _foreign(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for kind in type(value).__mro__:
            if kind.__module__.partition(".")[0] not in ("jaxelim", "builtins", "typing", "abc"):
                yield kind
        for field in dataclasses.fields(value):
            yield from _foreign(getattr(value, field.name))


def _source(argument: str, kind: type) -> str:
    """A hash of a class's source.

    Raises:
        ArgumentError: it cannot be read, as of a class that was typed into a terminal.
    """
    try:
        return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:20]
    except (OSError, TypeError) as error:
        allowed = "with a store, a class whose source is in a file"
        raise ArgumentError(argument, kind, allowed, str(error)) from error
