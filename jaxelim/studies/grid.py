"""The grid of a study: named rules, instances and problems, and a checked call of each."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxelim import catalogue, checks
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import ArgumentError
from jaxelim.instances import load_instance
from jaxelim.instances.instance import Instance
from jaxelim.simulation.experiment import Experiment, Settings, of_truth

OF_A_RULE = sorted(Settings.__annotations__.keys() - {"runs", "seed", "engine", "noise"})
"""Arguments of `simulate` that an entry of `rules` may have for itself."""
LONGEST = 40
"""Most characters of a description that serves as a name."""


class Place(NamedTuple):
    """A combination, by its names, and its call."""

    rule: str
    instance: str
    problem: str
    call: Experiment


def places(instances: Any, problem: Any, rules: Any, **shared: Any) -> list[Place]:
    """The combinations of a study, checked."""
    if problem is None and rules is None:
        return _experiments(instances, shared)
    given = (_named("rules", rules, _rule), _named("instances", instances, _instance),
             _named("problem", problem, _problem))  # fmt: skip
    found = []
    for one in itertools.product(*(named.items() for named in given)):
        (rule, own), (instance, single), (problem, question) = one
        call = _checked((rule, instance, problem), own, single, question, shared)
        found.append(Place(rule, instance, problem, call))
    return found


def _experiments(given: Any, settings: dict[str, Any]) -> list[Place]:
    """The places of experiments by name."""
    several = isinstance(given, Mapping) and given
    if not several or not all(isinstance(one, Experiment) for one in given.values()):
        allowed = "experiments by name; else problem and rules too"
        raise ArgumentError("instances", given, allowed)
    for name, value in settings.items():
        raise ArgumentError(name, value, "nothing: an experiment has its own")
    return [
        Place(str(name), one.instance.name or "instance", one.problem.name, one)
        for name, one in given.items()
    ]


def _checked(
    key: tuple[str, str, str], own: dict, instance: Any, question: Any, shared: dict
) -> Experiment:
    """The call of a combination."""
    source, single = instance
    given = {name: value for name, value in {**shared, **own}.items() if name != "rule"}
    try:
        problem = question(source)
        return Experiment(of_truth(single), problem, own["rule"], **catalogue.resolved(given))
    except ArgumentError as error:
        where = "rule {!r}, instance {!r}, problem {!r}".format(*key)
        error.note = f"{error.note}; of {where}" if error.note else f"of {where}"
        raise


class Entry(NamedTuple):
    """A rule, an instance or a problem of a grid, with a short name and one that tells more."""

    value: Any
    short: str
    long: str


def _named(argument: str, given: Any, made: Callable[[Any], Entry]) -> dict[str, Any]:
    """Entries by name: one, a sequence, or a mapping from names."""
    if isinstance(given, Mapping) and argument.removesuffix("s") not in given:
        entries = {str(name): made(entry).value for name, entry in given.items()}
    else:
        several = isinstance(given, Sequence) and not isinstance(given, str)
        listed = list(map(made, given if several else [given]))
        often = Counter(one.short for one in listed)
        names = [one.short if often[one.short] == 1 else one.long for one in listed]
        often = Counter(names)
        names = [f"{n} ({i})" if often[n] > 1 else n for i, n in enumerate(names)]
        entries = {name: one.value for name, one in zip(names, listed, strict=True)}
    if not entries:
        raise ArgumentError(argument, given, "at least one, alone, in a list or by name")
    return entries


def _rule(entry: Any) -> Entry:
    """A rule and its own arguments: {"rule": .., "stopping": ..}; its text names it."""
    own = dict(entry) if isinstance(entry, Mapping) else {"rule": entry}
    given = own.get("rule")
    rule = own["rule"] = catalogue.of_text("rule", given)
    for name in own:
        checks.choice("rules", name, ("rule", *OF_A_RULE))
    if not isinstance(rule, SamplingRule):
        allowed = "a sampling rule such as LinGapE(), its text, or a mapping with the key 'rule'"
        raise ArgumentError("rules", rule, allowed)
    short = type(rule).__name__
    return Entry(own, short, given if isinstance(given, str) else _long(short, rule))


def _long(short: str, thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= LONGEST else short


def _instance(entry: Any) -> Entry:
    """The name or the path of an instance, if it has one, and the instance."""
    if isinstance(entry, Mapping):
        for name in entry:
            checks.choice("instances", name, ("instance", "costs"))
        source, single = _instance(entry.get("instance")).value
        if not isinstance(single, Instance):
            raise ArgumentError("instances", entry, "an instance under the key 'instance'")
        value = source, single.with_costs(entry.get("costs", single.costs))
    elif isinstance(entry, str | os.PathLike):
        value = os.fspath(entry), load_instance(entry)
    else:
        value = None, entry
    name = getattr(value[1], "name", None) or "instance"
    return Entry(value, name, name)


def _problem(entry: Any) -> Entry:
    """The problem on an instance, by the instance's name."""
    if isinstance(entry, str):
        return Entry(lambda source: catalogue.problem_on(source, entry), entry, entry)
    if not isinstance(entry, Problem):
        raise ArgumentError("problem", entry, "a problem such as BestArm(), or its text")
    return Entry(lambda _: entry, entry.name, _long(entry.name, entry))
