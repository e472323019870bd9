"""The public call `study`: named rules, instances and problems, and a checked call of each."""

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from jaxelim import catalogue, checks
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import ArgumentError
from jaxelim.instances import load_instance
from jaxelim.instances.instance import Instance
from jaxelim.simulation import blocks
from jaxelim.simulation.experiment import Experiment, Settings, of_truth, takes_settings
from jaxelim.simulation.results.summaries import numbered
from jaxelim.studies.study import AXES, Key, Study

OF_A_RULE = sorted(Settings.__annotations__.keys() - {"runs", "seed", "engine", "noise"})
"""Arguments of `simulate` that an entry of `rules` may have for itself."""
LONGEST = 40
"""Most characters of a description that serves as a name."""


@takes_settings("noise")
def study(
    instances: Any,
    problem: Any = None,
    rules: Any = None,
    *,
    progress: Any = None,
    executor: Any = None,
    block: int | None = None,
    store: str | os.PathLike[str] | None = None,
    **settings: Unpack[Settings],
) -> Study:
    """Run several rules on several instances and problems, as `simulate` does each.

    Every combination has the same seed and runs, so rules are compared on the same noise.
    All combinations are checked before the first runs.

    Args:
        instances: an instance, a batch, the name or the path of one, or several of them,
            in a list or a mapping from names. Each instance of a batch has a result. A
            mapping with the key "instance" gives costs: {"instance": .., "costs": [..]}. Or,
            without problem and rules, experiments by name: `{"a": Experiment(..), ..}`.
        problem: a problem, or several likewise. Also texts, as on the command line: "TopM(3)".
        rules: a sampling rule or its text, or several likewise. A mapping with the key "rule"
            gives a rule arguments of its own: {"rule": LUCB(), "stopping": Native()}. They are
            those of `simulate` but instance, problem, runs, seed and engine.
        settings: all others as of `simulate`. Stopping rules, elimination and threshold may be
            texts.
        progress, executor, block, store: as of `simulate`, for all combinations together.
            `load_store` reads the store.

    Returns:
        A `Study`, with a `Result` for each combination.

    Raises:
        ArgumentError: an argument is wrong, or a combination is not defined. Its class is
            that of `simulate`, and its note names rule, instance and problem.
        Interrupted: Ctrl-C. Its `result` is a `Study` of the finished blocks.
        StoreError, WorkerError, FamilyError, RuleError, SetupError: as `simulate`.

    Example:
        >>> rules = ["lingape", "LUCB(pulls=2)"]
        >>> found = study("linear-d10", "best-arm", rules, runs=100)  # doctest: +SKIP
        >>> print(found.compare(baseline="LUCB"))  # doctest: +SKIP
    """
    calls = places(instances, problem, rules, **settings)
    labels = [dict(zip(AXES, key, strict=True)) for key in calls]
    return blocks.run_calls(
        list(calls.values()), lambda results: Study.of(zip(calls, results, strict=True)), labels,
        progress, executor, block, store,
    )  # fmt: skip


def places(instances: Any, problem: Any, rules: Any, **shared: Any) -> dict[Key, Experiment]:
    """The calls of a study, checked, by the names of their rule, instance and problem."""
    if problem is None and rules is None:
        return _experiments(instances, shared)
    axes = (_named("rules", rules, _rule), _named("instances", instances, _instance),
            _named("problem", problem, _problem))  # fmt: skip
    found = {}
    for rule, instance, asked in itertools.product(*axes):
        key, (source, one), of = (rule, instance, asked), axes[1][instance], axes[2][asked]
        try:
            of = catalogue.problem_on(source, of) if isinstance(of, str) else of
            settings = catalogue.resolved({**shared, **axes[0][rule]})
            found[key] = Experiment(of_truth(one), of, **settings)
        except ArgumentError as error:
            where = "of rule {!r}, instance {!r}, problem {!r}".format(*key)
            error.note = f"{error.note}; {where}" if error.note else where
            raise
    return found


def _experiments(given: Any, settings: dict[str, Any]) -> dict[Key, Experiment]:
    """Experiments by name, as of a study."""
    several = isinstance(given, Mapping) and given
    if not several or not all(isinstance(one, Experiment) for one in given.values()):
        allowed = "experiments by name; else problem and rules too"
        raise ArgumentError("instances", given, allowed)
    for name, value in settings.items():
        raise ArgumentError(name, value, "nothing: an experiment has its own")
    return {(str(name), one.instance.name or "instance", one.problem.name): one
            for name, one in given.items()}  # fmt: skip


Entry = tuple[Any, str, str]
"""A rule, an instance or a problem of a grid, with a short name and one that says more."""


def _named(argument: str, given: Any, made: Callable[[Any], Entry]) -> dict[str, Any]:
    """Entries by name: one, a sequence, or a mapping from names."""
    if isinstance(given, Mapping) and argument.removesuffix("s") not in given:
        entries = {str(name): made(entry)[0] for name, entry in given.items()}
    else:
        several = isinstance(given, Sequence) and not isinstance(given, str)
        listed = list(map(made, given if several else [given]))
        short = [name for _, name, _ in listed]
        names = [name if short.count(name) == 1 else long for _, name, long in listed]
        entries = dict(zip(numbered(names), (value for value, *_ in listed), strict=True))
    if not entries:
        raise ArgumentError(argument, given, "at least one, alone, in a list or by name")
    return entries


def _rule(entry: Any) -> Entry:
    """A rule and its own arguments: {"rule": .., "stopping": ..}; its text names it."""
    own = dict(entry) if isinstance(entry, Mapping) else {"rule": entry}
    given = own.get("rule")
    rule = own["rule"] = catalogue.made("rule", given)
    for name in own:
        checks.choice("rules", name, ("rule", *OF_A_RULE))
    if not isinstance(rule, SamplingRule):
        allowed = "a sampling rule such as LinGapE(), its text, or a mapping with the key 'rule'"
        raise ArgumentError("rules", rule, allowed)
    short = type(rule).__name__
    return own, short, given if isinstance(given, str) else _long(short, rule)


def _long(short: str, thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= LONGEST else short


def _instance(entry: Any) -> Entry:
    """The name or the path of an instance, if it has one, and the instance."""
    source, single = None, entry
    if isinstance(entry, Mapping):
        for name in entry:
            checks.choice("instances", name, ("instance", "costs"))
        (source, single), *_ = _instance(entry.get("instance"))
        if not isinstance(single, Instance):
            raise ArgumentError("instances", entry, "an instance under the key 'instance'")
        single = single.replace(costs=entry.get("costs", single.costs))
    elif isinstance(entry, str | os.PathLike):
        source, single = os.fspath(entry), load_instance(entry)
    name = getattr(single, "name", None) or "instance"
    return (source, single), name, name


def _problem(entry: Any) -> Entry:
    """A problem, or its text, which is of an instance."""
    if isinstance(entry, str):
        return entry, entry, entry
    if not isinstance(entry, Problem):
        raise ArgumentError("problem", entry, "a problem such as BestArm(), or its text")
    return entry, entry.name, _long(entry.name, entry)
