"""What files hold of calls and results, without pickle; and the key of a call in a store.

Only jaxelim's own classes are made from a file's text. Anything else comes back when the
caller passes it; until then its text stands for it.
"""

import dataclasses
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import families, problems, stopping, thresholds
from jaxelim.contracts import Family, SamplingRule, Source
from jaxelim.engine import REVISION
from jaxelim.errors import ArgumentError, StoreError, in_words
from jaxelim.files import writable_file, write_whole
from jaxelim.instances.instance import Instance
from jaxelim.simulation.refusals import proven
from jaxelim.text import NotHere, Text, name_of, parse, text_of

if TYPE_CHECKING:
    from xarray import Dataset  # slow to import

FORMAT = 2  # of files; raise it when their layout changes
ARRAYS: dict[str, tuple[tuple[str, ...], str]] = {
    "samples": ((), "samples"),
    "stopped": ((), ""),
    "answer": (("answer",), ""),
    "correct": ((), ""),
    "pulls": (("arm",), "samples"),
    "elimination_times": (("times",), "samples"),
    "tests_stopping": ((), "half-space tests"),
    "tests_sampling": ((), "half-space tests"),
    "solves": ((), "solves"),
    "means": (("arm",), ""),
    "variances": (("arm",), ""),
    "entered": (("arm",), "samples"),
}
"""The arrays of a result: axes after [instance, stopping, delta, run], and the unit.

"answer" and "times" are the problem's own axes.
"""
TABLES = ("origin", "layout", "timings")  # the parts of a result that are dictionaries
# Arguments that count otherwise, or as the layout of the work not at all.
_APART = ("instance", "runs", "noise", "engine")


class StoredFamily(Text, Family):
    """The text of a family of one's own: it cannot run."""

    name: Any = "stored"
    structures: Any = ("linear", "unstructured")


class StoredSource(Text, Source):
    """The text of a source of one's own: it cannot run."""


def known() -> dict[str, type]:
    """The classes that are made from a file's texts, by name: dataclasses of jaxelim."""
    places = (problems, families, stopping, thresholds)
    values = [value for place in places for value in vars(place).values()]
    values += _below(SamplingRule)
    return {
        kind.__name__: kind for kind in values
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        and kind.__module__.startswith("jaxelim.")  # no copy by another import
        and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    }  # fmt: skip


def _below(kind: type) -> list[type]:
    """The subclasses of a class, and theirs."""
    return [below for own in kind.__subclasses__() for below in (own, *_below(own))]


def made(text: str) -> Any:
    """What a text of a file describes."""
    return parse(text, "value", known(), files=True)


def described(call: Any) -> dict[str, Any]:
    """The arguments that decide the numbers of a run, by name, but for the instance's numbers."""
    one = call.instance
    parts = {name: value for name, value in call.fields.items() if name not in _APART}
    return {"family": one.family, "source": one.source, **parts}


def _spoken(argument: str, value: Any) -> dict:
    """The text of `value`, and a short one for people."""
    return {"text": str(value), "value": text_of(argument, value)}


def experiment_of(call: Any, **tables: dict) -> dict[str, Any]:
    """All of a result but its arrays, as JSON: its experiment, and its `TABLES`."""
    problem = call.problem
    return {
        "name": call.instance.name,
        "axes": {"answer_axis": problem.answer_axis, "times_axes": list(problem.times_axes)},
        "arguments": {name: _spoken(name, value) for name, value in described(call).items()},
        "stopping": [
            {**_spoken("stopping", rule), "name": rule.name, "eliminates": bool(rule.eliminates)}
            for rule in call.stopping
        ],
        **{name: text_of(name, tables[name]) for name in TABLES},
    }


def write(path: Any, parts: "Mapping[str, Dataset]") -> None:
    """Write datasets by their groups to a NetCDF file, compressed."""
    from xarray import DataTree

    target = writable_file("path", path)
    tree: Any = DataTree.from_dict(parts)
    packed = {group: {name: {"zlib": True, "complevel": 4} for name in part.data_vars}
              for group, part in parts.items()}  # fmt: skip
    write_whole(target, bytes(tree.to_netcdf(engine="h5netcdf", encoding=packed)))


def dataset_of(result: Any) -> "Dataset":
    """A result with all that `load_result` needs, as a dataset."""
    told = experiment_of(result.experiment, **{name: getattr(result, name) for name in TABLES})
    told = json.dumps(told, separators=(",", ":"), allow_nan=False)
    data, lead = result.to_xarray(), ("instance",) * result.batched
    axes = {"arms": (*lead, "arm", "dimension"), "theta": (*lead, "dimension"),
            "arm_costs": ("arm",)}  # fmt: skip
    for name, x in numbers_of(result.instance).items():
        data[name] = axes[name], x
    data.attrs |= {"jaxelim_result": FORMAT, "experiment": told, "checksum": checksum(data, told)}
    return data


def checksum(data: "Dataset", told: str) -> str:
    """SHA-256 of the experiment and of all numbers."""
    total = hashlib.sha256(told.encode())
    for name in sorted(map(str, data.variables)):
        x = np.asarray(data[name].values)
        text = str(x.tolist()) if x.dtype.kind in "OUT" else ""
        total.update(f"{name}{x.shape}{text}".encode())
        if not text:
            total.update(np.ascontiguousarray(x, x.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()


def recovered(path: Any, argument: str, stored: dict, passed: Any = None, **attributes: Any) -> Any:
    """The part that a file stores: `passed` if it is that, else made, else its `Text`."""
    text, description = stored["text"], stored["value"]
    if passed is not None:
        if text_of(argument, passed) != description:
            allowed = f"{text}, which the file holds, with equal settings"
            raise ArgumentError(argument, passed, allowed)
        return passed
    try:
        return made(description)
    except NotHere:
        kind = {"family": StoredFamily, "source": StoredSource}.get(argument, Text)
        return kind(text, description, **attributes)
    except Exception as error:
        problem = f"its {argument} is {text}, which this version of jaxelim does not take"
        remedy = f"pass load_result(path, {argument}=...)"
        raise StoreError(path, f"{problem} ({in_words(error)}); {remedy}") from error


def origin(call: Any) -> dict[str, Any]:
    """What a result says of its making: version, revision, hashes, `proven`."""
    from jaxelim import __version__  # this module is imported while jaxelim is

    noise = {} if call.noise is None else {"noise_sha256": sha256(call.noise)}
    return {
        "proven": proven(call), "version": __version__, "revision": REVISION,
        "instance_sha256": hash_of(call.instance), **noise,
    }  # fmt: skip


def hash_of(instance: Instance) -> str:
    """A hash of an instance's numbers, family and source; the name is left out."""
    text = ""
    for one in (instance.family, *([] if instance.source is None else [instance.source])):
        try:
            text += text_of("instance", one)
        except ArgumentError:
            text += repr(one)
    return sha256(*numbers_of(instance).values(), text=text)


def numbers_of(instance: Any) -> dict[str, np.ndarray]:
    """The numbers of an instance, by their names in files."""
    costs = {} if instance.costs is None else {"arm_costs": instance.costs}
    return {"arms": instance.arms, "theta": instance.theta, **costs}


def _same(x: Any, y: Any) -> bool:
    """Whether two values have equal texts; arrays equal dtype, shape and entries, NaN equal NaN."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        alike = x.dtype == y.dtype and x.shape == y.shape
        return alike and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    try:
        return text_of("other", x) == text_of("other", y)
    except ArgumentError:
        return type(x) is type(y) and bool(x == y)


def same(result: Any, other: Any) -> bool:
    """Whether two results are equal, as of `Result.equals`."""
    mine, theirs = (
        {**described(one.experiment), **numbers_of(one.instance), "runs": one.runs,
         "noise": one.origin.get("noise_sha256"), **{name: getattr(one, name) for name in ARRAYS}}
        for one in (result, other)
    )  # fmt: skip
    return mine.keys() == theirs.keys() and all(_same(x, theirs[name]) for name, x in mine.items())


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
            try:
                source = inspect.getsource(kind)
            except (OSError, TypeError) as error:
                allowed = "with a store, a class whose source is in a file"
                raise ArgumentError(name, kind, allowed, str(error)) from error
            sources[name_of(kind)] = hashlib.sha256(source.encode()).hexdigest()[:20]
    noise = [] if call.noise is None else [call.noise, call.runs]
    arrays = [*numbers_of(call.instance).values(), *noise]
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
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _foreign(entry)
    elif inspect.isroutine(value):
        yield value
    elif not isinstance(value, np.ndarray | np.generic):
        for kind in type(value).__mro__:
            if kind.__module__.partition(".")[0] not in ("jaxelim", "builtins", "typing", "abc"):
                yield kind
        if dataclasses.is_dataclass(value):
            yield from _foreign([getattr(value, one.name) for one in dataclasses.fields(value)])
