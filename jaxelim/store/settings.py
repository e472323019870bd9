"""The settings of a cell, all that decides its numbers, as JSON, and what stands for them in a file's name."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from jaxelim.errors import ArgumentError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance

REVISION = 4
"""Of the numbers, and part of all settings: raised by whoever changes what a run draws or does, so that runs of the two kinds
are never joined."""


def canonical(value: Any) -> Any:
    """`value` as JSON that says all of it, with a hash in the place of each array.

    Names of instances, being labels, are left out. A class is told by its name alone: whoever changes what a rule of their own
    does should give it another name or a field.

    Raises:
        ArgumentError: something that cannot be told by its value, such as a function; a dataclass with __call__ can.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return {"array": list(value.shape), "dtype": value.dtype.name, "sha256": hashlib.sha256(plain.tobytes()).hexdigest()}
    if isinstance(value, list | tuple):
        return [canonical(one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: canonical(one) for key, one in value.items()}
    if isinstance(value, Instance):
        gaussian = isinstance(value.family, Gaussian)
        family = {"noise_std": value.noise_std} if gaussian else {"family": canonical(value.family)}
        return {"arms": canonical(value.arms), "theta": canonical(value.theta), **family}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        # Ours go by their public name alone, so that moving a module changes no digest.
        room = "jaxelim" if kind.__module__.startswith("jaxelim.") else kind.__module__
        fields = {
            field.name: canonical(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not _omitted(field, getattr(value, field.name))
        }
        return {"class": f"{room}.{kind.__qualname__}", **fields}
    raise ArgumentError("settings", value, "numbers, strings, arrays and dataclasses of these: results are named by the value")


def _omitted(field: dataclasses.Field, value: Any) -> bool:
    """Whether a field younger than results that exist has the value that stands for these."""
    return bool(field.metadata.get("omitted_at_default")) and value == field.default


def digest(settings: dict) -> str:
    """20 hexadecimal digits that stand for canonical settings."""
    return hashlib.sha256(as_json(settings).encode()).hexdigest()[:20]


def as_json(value: Any) -> str:
    """One text for each value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def differences(there: dict, here: dict) -> str:
    """Where two canonical settings differ, in words."""
    flat_there, flat_here = _flat(there), _flat(here)
    differing = [key for key in sorted({*flat_there, *flat_here}) if flat_there.get(key) != flat_here.get(key)]
    shown = [f"{key} is {flat_there.get(key, 'absent')} there and {flat_here.get(key, 'absent')} here" for key in differing[:6]]
    more = f", and {len(differing) - 6} more" if len(differing) > 6 else ""
    return "; ".join(shown) + more


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {k: v for key, one in value.items() for k, v in _flat(one, f"{prefix}.{key}" if prefix else key).items()}
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return {k: v for i, one in enumerate(value) for k, v in _flat(one, f"{prefix}[{i}]").items()}
    return {prefix: value}
