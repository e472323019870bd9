"""What texts may name, for the command line and studies."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxelim import checks, families, instances, problems, stopping, thresholds
from jaxelim import rules as sampling
from jaxelim.contracts import SamplingRule
from jaxelim.errors import ArgumentError
from jaxelim.simulation.results.descriptions import known
from jaxelim.text import parse


def _spelled(name: str) -> str:
    """The command-line name of a class: BestArm -> best-arm."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def name_of(rule: type[SamplingRule]) -> str:
    """The command-line name of a rule."""
    return rule.traits.name or _spelled(rule.__name__)


def rules() -> dict[str, type[SamplingRule]]:
    """Sampling rules by command-line name."""
    found = [one for one in vars(sampling).values() if isinstance(one, type)]
    return dict(sorted((name_of(one), one) for one in found if issubclass(one, SamplingRule)))


def presets() -> dict[str, Callable[..., SamplingRule]]:
    """Functions that return a rule set as in a paper, by command-line name."""
    found = [one for one in vars(sampling).values() if inspect.isfunction(one)]
    found = [one for one in found if one.__module__.startswith(sampling.__name__)]
    return {one.__name__.lower(): one for one in found}


def find_rule(name: str) -> type[SamplingRule]:
    """The rule of a command-line name, or of another paper's name for it."""
    known = {name: one for name, one in names("rule").items() if isinstance(one, type)}
    return known[checks.choice("rule", name, known)]


def stopping_rules() -> dict[str, Any]:
    """Stopping rules by command-line name."""
    kinds = (stopping.LLR, stopping.SelectiveElimination, stopping.FullElimination, stopping.Native)
    return {kind.name: kind for kind in kinds}


def names(argument: str) -> dict[str, Any]:
    """What the text of an argument may name, by command-line name."""
    if argument == "rule":
        known = rules()
        others = {other: known[name] for other, name in sampling.OTHER_NAMES.items()}
        return {**known, **others, **presets()}
    if argument == "elimination":
        sets = {name: one for name, one in stopping_rules().items() if one.eliminates}
        return {"none": None, **sets, "resets": stopping.Resets}
    if argument in ("problem", "threshold"):
        place = problems if argument == "problem" else thresholds
        return {_spelled(name): getattr(place, name) for name in place.__all__}
    return {"family": families.NAMES, "source": families.SOURCES}.get(argument) or stopping_rules()


def made(argument: str, text: Any) -> Any:
    """What a text makes: the rule "lucb(pulls=2)", the family "Bounded(0, 5)"; no text stays."""
    return parse(text, argument, names(argument), known()) if isinstance(text, str) else text


def resolved(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call, with objects in place of the texts of stopping, elimination, threshold.
    """
    found = dict(given)
    for name in given.keys() & {"elimination", "threshold", "stopping"}:
        one = given[name]
        several = isinstance(one, Sequence) and not isinstance(one, str)
        found[name] = [made(name, x) for x in one] if several else made(name, one)
    return found


def problem_on(source: Any, text: str) -> Any:
    """The problem of a text on an instance.

    "best-item" has the items of the instance's file, and "top-m" its usual m.
    """
    if text == "best-item":
        if not isinstance(source, str):
            raise ArgumentError("problem", text, "best-item on an instance of a file with items")
        return problems.BestArm(items=instances.load_items(source))
    if text == "top-m":
        usual = instances.describe(source).m if source in instances.names() else None
        if usual is None:
            raise ArgumentError("problem", text, "TopM(m), as this instance has no usual m")
        return problems.TopM(usual)
    return made("problem", text)
