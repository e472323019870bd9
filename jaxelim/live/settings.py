"""The arguments of a live run as JSON, and back, without pickle.

Dataclasses of jaxelim are written by their names and fields. An object of one's own is
written by the name of its class alone, and is given again when the file is read.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

import jaxelim
from jaxelim.errors import ArgumentError
from jaxelim.simulation.described import known

STATE = 2
"""Version of the state in a file; raise it when the engine's lanes or a rule's state change."""
OWN = ("problem", "rule", "family", "stopping", "elimination", "threshold")
"""Arguments of a live run that a file may hold by the name of their class alone."""


def _known() -> dict[str, type]:
    """The dataclasses of families, problems, rules, stopping rules and thresholds, by name."""
    return {kind.__name__: kind for kind in known().values()}


def encoded(value: Any) -> Any:
    """The value as JSON."""
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": value.tolist(), "dtype": value.dtype.name}
    if isinstance(value, tuple | list):
        return {"tuple": [encoded(one) for one in value]}
    written = _of_class(value)
    try:
        if written is not None and decoded(written, None) == value:
            return written
    except Exception:  # a constructor of other arguments
        pass
    return {"own": _name(value)}


def _of_class(value: Any) -> dict | None:
    kind = type(value)
    if _known().get(kind.__name__) is not kind:
        return None
    fields = [one for one in dataclasses.fields(kind) if one.init]
    return {
        "class": kind.__name__,
        "fields": {one.name: encoded(getattr(value, one.name)) for one in fields},
    }


def _name(value: Any) -> str:
    """The name of a function, or of the class of another object."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def decoded(written: Any, own: Any, argument: str = "value") -> Any:
    """The value of `encoded`.

    Args:
        written: the JSON.
        own: the object in place of one that only its class names; None: none is given.
        argument: its name, for the message.

    Raises:
        ArgumentError: such an object is missing, or is one of another class.
        KeyError, TypeError, ValueError: this is no JSON of `encoded`.
    """
    if not isinstance(written, dict):
        return written
    if "array" in written:
        return np.array(written["array"], written["dtype"])
    if "tuple" in written:
        return tuple(decoded(one, None, argument) for one in written["tuple"])
    if "own" in written:
        if own is None or _name(own) != written["own"]:
            allowed = f"the {written['own']} that the run was made with, given to load"
            raise ArgumentError(argument, own, allowed)
        return own
    fields = {name: decoded(one, None, name) for name, one in written["fields"].items()}
    return _known()[written["class"]](**fields)


def arguments(settings: dict, own: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arms and the other arguments of a live run, from the settings in its file.

    Raises:
        ArgumentError: an object of one's own is missing in `own`.
        KeyError, TypeError: these are no settings.
    """
    given = dict(settings)
    features, names = decoded(given.pop("arms"), None), given.pop("names")
    arms = dict(zip(names, features, strict=True)) if names else features
    return arms, {**given, **{name: decoded(given[name], own[name], name) for name in OWN}}


def versions() -> dict[str, Any]:
    """What must be equal for a state in a file to be read."""
    return {"jaxelim": jaxelim.__version__, "state": STATE, "jax": jax.__version__}
