"""The grid of a study: named rules, instances and problems, and a checked call of each."""

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
    """The combinations of a study, checked.

    Args:
        instances, problem, rules: as of `study`.
        shared: the other arguments of `simulate`.

    Raises:
        ArgumentError: as `simulate`; its note names the combination.
    """
    if problem is None and rules is None:
        return _experiments(instances, shared)
    named = {
        rule: (settings.pop("rule"), settings)
        for rule, settings in _named("rules", rules, _rule, _name_of_rule).items()
    }
    arms = _named("instances", instances, _instance, _name_of_instance)
    asked = _named("problem", problem, _problem, _name_of_problem)
    return [
        Place(*key, _checked(key, rule, instance, question, {**shared, **own}))
        for name, (rule, own) in named.items()
        for where, instance in arms.items()
        for what, question in asked.items()
        for key in ((name, where, what),)
    ]


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
    key: tuple[str, str, str], rule: Any, instance: Any, question: Any, given: dict[str, Any]
) -> Experiment:
    """The call of a combination."""
    try:
        source, single = instance
        problem = question(source)
        return Experiment(of_truth(single), problem, rule, **catalogue.resolved(given))
    except ArgumentError as error:
        where = "rule {!r}, instance {!r}, problem {!r}".format(*key)
        error.note = f"{error.note}; of {where}" if error.note else f"of {where}"
        raise


def _named(
    argument: str,
    given: Any,
    made: Callable[[Any], Any],
    name_of: Callable[[Any, Any], tuple[str, str]],
) -> dict[str, Any]:
    """Entries by name: one, a sequence, or a mapping from names."""
    if isinstance(given, Mapping) and argument.removesuffix("s") not in given:
        entries = {str(name): made(entry) for name, entry in given.items()}
    else:
        several = isinstance(given, Sequence) and not isinstance(given, str)
        listed = list(given) if several else [given]
        objects = [made(entry) for entry in listed]
        options = [name_of(x, entry) for x, entry in zip(objects, listed, strict=True)]
        often = Counter(short for short, _ in options)
        names = [short if often[short] == 1 else long for short, long in options]
        often = Counter(names)
        names = [f"{n} ({i})" if often[n] > 1 else n for i, n in enumerate(names)]
        entries = dict(zip(names, objects, strict=True))
    if not entries:
        raise ArgumentError(argument, given, "at least one, alone, in a list or by name")
    return entries


def _rule(entry: Any) -> dict[str, Any]:
    """A rule and its own arguments: {"rule": .., "stopping": ..}."""
    if not isinstance(entry, Mapping):
        entry = {"rule": entry}
    made = dict(entry)
    rule = catalogue.of_text("rule", made.pop("rule", None))
    for name in made:
        checks.choice("rules", name, ("rule", *OF_A_RULE))
    if not isinstance(rule, SamplingRule):
        allowed = "a sampling rule such as LinGapE(), its text, or a mapping with the key 'rule'"
        raise ArgumentError("rules", rule, allowed)
    return {"rule": rule, **made}


def _name_of_rule(made: dict[str, Any], entry: Any) -> tuple[str, str]:
    """A name, and another where several entries have the first: as it was given, if it was."""
    short = type(made["rule"]).__name__
    given = entry.get("rule") if isinstance(entry, Mapping) else entry
    return (short, given) if isinstance(given, str) else _names_of(short, made["rule"])


def _names_of(short: str, thing: Any) -> tuple[str, str]:
    text = repr(thing)
    return short, text if len(text) <= LONGEST else short


def _instance(entry: Any) -> tuple[Any, Any]:
    """The name or the path of an instance, if it has one, and the instance."""
    if isinstance(entry, Mapping):
        for name in entry:
            checks.choice("instances", name, ("instance", "costs"))
        source, single = _instance(entry.get("instance"))
        if not isinstance(single, Instance):
            raise ArgumentError("instances", entry, "an instance under the key 'instance'")
        return source, single.with_costs(entry.get("costs", single.costs))
    if isinstance(entry, str | os.PathLike):
        return os.fspath(entry), load_instance(entry)
    return None, entry


def _name_of_instance(made: tuple[Any, Any], _: Any) -> tuple[str, str]:
    name = getattr(made[1], "name", None) or "instance"
    return name, name


def _problem(entry: Any) -> Callable[[Any], Any]:
    """The problem on an instance, by the instance's name."""
    if isinstance(entry, str):
        return lambda source: catalogue.problem_on(source, entry)
    if not isinstance(entry, Problem):
        raise ArgumentError("problem", entry, "a problem such as BestArm(), or its text")
    return lambda _: entry


def _name_of_problem(_: Any, entry: Any) -> tuple[str, str]:
    return _names_of(entry.name, entry) if isinstance(entry, Problem) else (entry, entry)
