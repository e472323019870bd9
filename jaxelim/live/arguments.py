"""The arguments of a live run as text, and back, without pickle.

Those of jaxelim's own classes are written as in the files of results. An object of one's own
is written by the name of its class alone, and is given again when the file is read.
"""

from typing import Any

import jax

import jaxelim
from jaxelim.errors import ArgumentError
from jaxelim.simulation.results.descriptions import made
from jaxelim.text import text_of

STATE = 4
"""Version of the state in a file; raise it when the engine's lanes or a rule's state change."""


def encoded(value: Any) -> Any:
    """The value as text; a class outside jaxelim, or a function, by its name alone."""
    try:
        text = text_of("value", value)
        if made(text) == value:
            return text
    except Exception:  # what is not jaxelim's own, or a constructor of other arguments
        pass
    return {"own": _name(value)}


def _name(value: Any) -> str:
    """The name of a function, or of the class of another object."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def decoded(written: Any, own: Any, argument: str = "value") -> Any:
    """The value of `encoded`.

    Args:
        written: its text, or the name of its class.
        own: the object in place of one that only its class names; None: none is given.
        argument: its name, for the message.

    Raises:
        ArgumentError: such an object is missing, or is one of another class.
        NotHere, KeyError, TypeError, ValueError: this is nothing of `encoded`.
    """
    if isinstance(written, str):
        return made(written)
    if own is None or _name(own) != written["own"]:
        allowed = f"the {written['own']} that the run was made with, given to load"
        raise ArgumentError(argument, own, allowed)
    return own


def arguments(settings: dict, own: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arms and the other arguments of a live run, from the settings in its file.

    Raises:
        ArgumentError: an object of one's own is missing in `own`.
        NotHere, KeyError, TypeError: these are no settings.
    """
    others = dict(settings)
    features, names = made(others.pop("arms")), made(others.pop("names"))
    arms = dict(zip(names, features, strict=True)) if names else features
    return arms, {name: decoded(value, own.get(name), name) for name, value in others.items()}


def versions() -> dict[str, Any]:
    """What must be equal for a state in a file to be read."""
    return {"jaxelim": jaxelim.__version__, "state": STATE, "jax": jax.__version__}
