"""The settings of a cell, all that determines its numbers, as JSON; and their digest."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxelim.checks import name_of, plain
from jaxelim.engine import REVISION as REVISION
from jaxelim.errors import ArgumentError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance


def canonical(value: Any) -> Any:
    """Convert `value` to JSON that identifies it; a hash replaces each array.

    Results are found by a digest of it, so its form must stay. JSON that gives the value
    back is `jaxelim.simulation.results.descriptions`.

    Names of instances are labels, and are left out. A class is identified by its name
    alone: if you change what your own rule does, give it another name or a field.

    Raises:
        ArgumentError: an object that its value does not identify, such as a function. A
            dataclass with __call__ is allowed.
    """
    if plain(value) is not NotImplemented:
        return plain(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return {
            "array": list(value.shape),
            "dtype": value.dtype.name,
            "sha256": hashlib.sha256(little.tobytes()).hexdigest(),
        }
    if isinstance(value, list | tuple):
        return [canonical(entry) for entry in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: canonical(entry) for key, entry in value.items()}
    if isinstance(value, Instance):
        gaussian = type(value.family) is Gaussian and not value.family.by_arm
        family = {"noise_std": value.noise_std} if gaussian else {"family": canonical(value.family)}
        if value.costs is not None:
            family["costs"] = canonical(value.costs)
        return {"arms": canonical(value.arms), "theta": canonical(value.theta), **family}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: canonical(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not _omitted(field, getattr(value, field.name))
        }
        return {"class": name_of(type(value)), **fields}
    raise ArgumentError(
        "settings",
        value,
        "numbers, strings, arrays and dataclasses of these: results are named by the value",
    )


def _omitted(field: Any, value: Any) -> bool:
    """Whether a field that older stored settings lack has its default, and so is left out."""
    return field.metadata.get("omitted_at_default", False) and np.array_equal(value, field.default)


def digest(settings: dict) -> str:
    """The digest of canonical settings: 20 hexadecimal digits."""
    return hashlib.sha256(as_json(settings).encode()).hexdigest()[:20]


def as_json(value: Any) -> str:
    """Canonical JSON text: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def differences(there: dict, here: dict) -> str:
    """The differences of two canonical settings, in words."""
    theirs, ours = differing([there, here])
    shown = [f"{key} is {theirs[key]} there and {ours[key]} here" for key in list(theirs)[:6]]
    more = f", and {len(theirs) - 6} more" if len(theirs) > 6 else ""
    return "; ".join(shown) + more


def differing(settings: Sequence[dict]) -> list[dict[str, Any]]:
    """The entries of each of several canonical settings that are not the same in all."""
    flat = [_flat(one) for one in settings]
    keys = sorted({key for one in flat for key in one})
    keys = [key for key in keys if any(one.get(key) != flat[0].get(key) for one in flat)]
    return [{key: one.get(key, "absent") for key in keys} for one in flat]


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {
            k: v
            for key, entry in value.items()
            for k, v in _flat(entry, f"{prefix}.{key}" if prefix else key).items()
        }
    if isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        return {
            k: v for i, entry in enumerate(value) for k, v in _flat(entry, f"{prefix}[{i}]").items()
        }
    return {prefix: value}
