"""Rules, problems, families and thresholds as text, and back, without pickle.

Only jaxelim's own classes are made from a file's text. Anything else comes back when the
caller passes it; until then its text stands for it.
"""

import dataclasses
import sys
from typing import Any

import numpy as np

from jaxelim import families, problems, stopping, thresholds
from jaxelim.contracts import Family, SamplingRule, Source
from jaxelim.engine import REVISION
from jaxelim.errors import ArgumentError, StoreError, in_words
from jaxelim.instances.instance import Instance
from jaxelim.simulation.keys import described, sha256
from jaxelim.simulation.results.proven import proven
from jaxelim.text import NotHere, Text, parse, text_of

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
TABLES = ("origin", "layout", "timings")
"""The parts of a result that are dictionaries."""


class StoredFamily(Text, Family):
    """The text of a family of one's own: it cannot run."""

    name: Any = "stored"
    structures: Any = ("linear", "unstructured")


class StoredSource(Text, Source):
    """The text of a source of one's own: it cannot run."""


def known() -> dict[str, type]:
    """The classes that are made from a file's texts, by name."""
    places = (problems, families, stopping, thresholds)
    values = [value for place in places for value in vars(place).values()]
    values += _below(SamplingRule)
    return {kind.__name__: kind for kind in values if isinstance(kind, type) and _own(kind)}


def _below(kind: type) -> list[type]:
    """The subclasses of a class, and theirs."""
    return [below for own in kind.__subclasses__() for below in (own, *_below(own))]


def _own(kind: type) -> bool:
    """Whether a class is a dataclass of jaxelim; a copy by another import is none."""
    module = sys.modules.get(kind.__module__)
    own = kind.__module__.startswith("jaxelim.") and getattr(module, kind.__name__, None) is kind
    return own and dataclasses.is_dataclass(kind)


def made(text: str) -> Any:
    """What a text of a file describes."""
    return parse(text, "value", known(), files=True)


def spoken(argument: str, value: Any) -> dict:
    """The text of `value`, and a short one for people."""
    return {"text": str(value), "value": text_of(argument, value)}


def experiment_of(result: Any) -> dict[str, Any]:
    """All of a result but its arrays, as JSON."""
    call, problem = result.experiment, result.problem
    return {
        "name": call.instance.name,
        "axes": {"answer_axis": problem.answer_axis, "times_axes": list(problem.times_axes)},
        "arguments": {name: spoken(name, value) for name, value in described(call).items()},
        "stopping": [
            {**spoken("stopping", rule), "name": rule.name, "eliminates": bool(rule.eliminates)}
            for rule in call.stopping
        ],
        **{name: text_of(name, getattr(result, name)) for name in TABLES},
    }


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
    costs = () if instance.costs is None else (instance.costs,)
    return sha256(instance.arms, instance.theta, *costs, text=text)


def same(x: Any, y: Any) -> bool:
    """Whether two values have equal texts; arrays equal dtype, shape and entries, NaN equal NaN."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        alike = x.dtype == y.dtype and x.shape == y.shape
        return alike and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    try:
        return text_of("other", x) == text_of("other", y)
    except ArgumentError:
        return type(x) is type(y) and bool(x == y)


def same_experiment(result: Any, other: Any) -> bool:
    """Whether two results are of the same experiment; names of instances do not count."""
    pair = result.experiment, other.experiment
    mine, theirs = ({**described(one), "runs": one.runs, "arms": one.instance.arms,
                     "theta": one.instance.theta, "costs": one.instance.costs}
                    for one in pair)  # fmt: skip
    noise = [one.origin.get("noise_sha256") for one in (result, other)]
    return noise[0] == noise[1] and all(same(mine[name], theirs[name]) for name in mine)
