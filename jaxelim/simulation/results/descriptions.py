"""Rules, problems, families and thresholds as JSON, and back, without pickle.

A description names a class and its fields. Only jaxelim's own classes are made from
one. Anything else comes back when the caller passes it; until then its text stands for
it.
"""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from jaxelim import families, problems, thresholds
from jaxelim.checks import name_of, plain
from jaxelim.contracts import Family, Problem, SamplingRule, Source, StoppingRule
from jaxelim.engine import REVISION
from jaxelim.errors import ArgumentError, StoreError, in_words
from jaxelim.instances.instance import Instance
from jaxelim.stopping import elimination, llr, resets

ARRAYS = (
    "deltas", "runs", "samples", "stopped", "answer", "correct", "pulls", "elimination_times",
    "tests_stopping", "tests_sampling", "solves", "means", "variances", "entered",
)  # fmt: skip
"""The arrays of a result."""
TABLES = ("settings", "layout", "timings")
"""The parts of a result that are dictionaries."""
_KEPT = ("seed", "max_samples", "initial_pulls", "batch", "delay", "ridge", "noise",
         "noise_sha256")  # fmt: skip
"""Settings that are no part of an experiment's other arguments."""


class Text(str):
    """The text of a part of a loaded result that is not jaxelim's own and was not passed."""

    description: Any  # as in the file
    name: str = ""  # of a stopping rule
    eliminates: bool = False
    answer_axis: str | None = None  # of a problem
    times_axes: tuple[str, ...] = ()

    def __new__(cls, text: str, description: Any = None, **attributes: Any) -> "Text":
        made = super().__new__(cls, text)
        made.description = description
        vars(made).update(attributes)
        return made

    def __getnewargs__(self) -> tuple[str, Any]:
        return str(self), self.description

    def __repr__(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Stored:
    """A family or a source of one's own in a loaded result, as text: it cannot run."""

    text: str
    description: str  # JSON
    name: ClassVar[str] = "stored"
    structures: ClassVar[tuple[str, ...]] = ("linear", "unstructured")

    def __repr__(self) -> str:
        return self.text


class StoredFamily(Stored, Family):
    """A family of one's own."""


class StoredSource(Stored, Source):
    """A source of one's own."""


class NotHere(Exception):
    """A description of something that is not jaxelim's own."""


def known() -> dict[str, type]:
    """The classes that are made from descriptions, by name."""
    places = (problems, families, llr, elimination, resets, thresholds)
    values = [value for place in places for value in vars(place).values()]
    values += _below(SamplingRule)
    return {name_of(kind): kind for kind in values if isinstance(kind, type) and _own(kind)}


def _below(kind: type) -> list[type]:
    """The subclasses of a class, and theirs."""
    return [below for own in kind.__subclasses__() for below in (own, *_below(own))]


def _own(kind: type) -> bool:
    """Whether a class is a dataclass of jaxelim; a copy by another import is none."""
    module = sys.modules.get(kind.__module__)
    own = kind.__module__.startswith("jaxelim.") and getattr(module, kind.__name__, None) is kind
    return own and dataclasses.is_dataclass(kind)


def description_of(argument: str, value: Any) -> Any:
    """`value` as JSON, from which `made` makes it again if it is jaxelim's own.

    Raises:
        ArgumentError: a lambda or another object that has no name in a file.
    """
    if isinstance(value, Text):
        return value.description
    if isinstance(value, Stored):
        return json.loads(value.description)
    if plain(value) is not NotImplemented:
        return plain(value)
    if isinstance(value, float | np.floating):
        return {"float": repr(float(value))}
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        entries = description_of(argument, value.ravel().tolist())
        return {"array": entries, "shape": list(value.shape), "dtype": value.dtype.name}
    if isinstance(value, list):
        return [description_of(argument, entry) for entry in value]
    if isinstance(value, tuple):
        return {"tuple": description_of(argument, list(value))}
    if isinstance(value, Mapping):
        return {"items": description_of(argument, list(map(list, value.items())))}
    kind = type(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        settings = {name: description_of(argument, getattr(value, name)) for name in fields}
        return {"class": name_of(kind), "fields": settings}
    if callable(value) and _defined(value):
        return {"function": f"{value.__module__}.{value.__qualname__}"}
    stateless = not getattr(value, "__dict__", True)
    if isinstance(value, Family | Source | Problem | SamplingRule | StoppingRule) and stateless:
        return {"class": name_of(kind), "fields": {}}
    allowed = (
        "what a file can name: a frozen dataclass, also one with __call__, or a function that "
        "a module defines; not a lambda"
    )
    raise ArgumentError(argument, value, allowed)


def _defined(value: Any) -> bool:
    """Whether a function's module has it under its name, as it has no lambda."""
    place: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in getattr(value, "__qualname__", "<").split("."):
        place = getattr(place, part, None)
    return place is value and not isinstance(value, type)


def made(description: Any) -> Any:
    """What a description describes.

    Raises:
        NotHere: part of it is not jaxelim's own.
        Exception: the class does not take these fields.
    """
    if isinstance(description, list):
        return [made(entry) for entry in description]
    if not isinstance(description, dict):
        return description
    if "float" in description:
        return float(description["float"])
    if "tuple" in description:
        return tuple(made(entry) for entry in description["tuple"])
    if "items" in description:
        return {made(key): made(value) for key, value in description["items"]}
    if "array" in description:
        array = np.array(made(description["array"]), description["dtype"])
        return array.reshape(description.get("shape", array.shape))
    if "class" not in description:
        raise NotHere(str(description.get("function", description)))
    kind: Any = known().get(description["class"])
    if kind is None:
        raise NotHere(description["class"])
    settings = {name: made(value) for name, value in description["fields"].items()}
    own = sorted(field.name for field in dataclasses.fields(kind) if field.init)
    if sorted(settings) != own:
        raise TypeError(f"{kind.__name__} has the settings {own} here")
    return kind(**settings)


def spoken(argument: str, value: Any) -> dict:
    """The description of `value` with its text."""
    return {"text": str(value), "value": description_of(argument, value)}


def experiment_of(result: Any) -> dict[str, Any]:
    """All of a result but its arrays, as JSON."""
    problem, instance = result.problem, result.instance
    stopping = [
        {**spoken("stopping", rule), "name": rule.name, "eliminates": bool(rule.eliminates)}
        for rule in result.stopping
    ]
    axes = {"answer_axis": problem.answer_axis, "times_axes": list(problem.times_axes)}
    return {
        "name": instance.name,
        "family": spoken("family", instance.family),
        "source": spoken("source", instance.source),
        "problem": {**spoken("problem", problem), **axes},
        "rule": spoken("rule", result.rule),
        "stopping": stopping,
        "elimination": spoken("elimination", result.elimination),
        "threshold": spoken("threshold", result.threshold),
        **{name: description_of(name, getattr(result, name)) for name in TABLES},
    }


def recovered(path: Any, argument: str, stored: dict, passed: Any = None, **attributes: Any) -> Any:
    """The part that a file stores: `passed` if it is that, else made, else its `Text`.

    Args:
        path: the file, for messages.
        argument: the name of the part.
        stored: as from `spoken`.
        passed: what the caller passes for it; None for nothing.
        attributes: of the `Text`.

    Raises:
        ArgumentError: `passed` is another than the file's.
        StoreError: jaxelim's own class does not take the file's settings.
    """
    text, description = stored["text"], stored["value"]
    if passed is not None:
        if description_of(argument, passed) != description:
            allowed = f"{text}, which the file holds, with equal settings"
            raise ArgumentError(argument, passed, allowed)
        return passed
    try:
        return made(description)
    except NotHere:
        return Text(text, description, **attributes)
    except Exception as error:
        problem = f"its {argument} is {text}, which this version of jaxelim does not take"
        remedy = f"pass load_result(path, {argument}=...)"
        raise StoreError(path, f"{problem} ({in_words(error)}); {remedy}") from error


def origin(call: Any) -> dict[str, Any]:
    """Entries of a result's settings: version, revision, and hashes of instance and noise."""
    from jaxelim import __version__  # this module is imported while jaxelim is

    noise = {} if call.noise is None else {"noise_sha256": sha256(call.noise)}
    identity = {"instance_sha256": hash_of(call.instance)}
    return {"version": __version__, "revision": REVISION, **identity, **noise}


def hash_of(instance: Instance) -> str:
    """A hash of an instance's numbers, family and source; the name is left out."""
    text = ""
    for one in (instance.family, *([] if instance.source is None else [instance.source])):
        try:
            text += json.dumps(description_of("instance", one))
        except ArgumentError:
            text += repr(one)
    costs = () if instance.costs is None else (instance.costs,)
    return sha256(instance.arms, instance.theta, *costs, text=text)


def sha256(*arrays: np.ndarray, text: str = "") -> str:
    total = hashlib.sha256(text.encode())
    for array in arrays:
        plain = np.ascontiguousarray(array + 0.0, "<f8")  # -0.0 is 0.0
        total.update(str(plain.shape).encode() + plain.tobytes())
    return total.hexdigest()


def same_array(x: Any, y: Any) -> bool:
    """Whether two arrays have equal dtype, shape and entries, NaN equal to NaN."""
    if x is None or y is None:
        return x is y
    return (
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    )


def same_experiment(result: Any, other: Any) -> bool:
    """Whether two results are of the same experiment; names of instances do not count."""
    parts = ("instance", "problem", "rule", "stopping", "elimination", "threshold")
    return all(_same(getattr(result, name), getattr(other, name)) for name in parts) and all(
        result.settings.get(name) == other.settings.get(name) for name in _KEPT
    )


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, Instance) and isinstance(y, Instance):
        numbers = [(x.arms, y.arms), (x.theta, y.theta), (x.costs, y.costs)]
        arrays = all(same_array(*pair) for pair in numbers)
        return arrays and _same((x.family, x.source), (y.family, y.source))
    try:
        return description_of("other", x) == description_of("other", y)
    except ArgumentError:
        return type(x) is type(y) and bool(x == y)
