"""What tests share: checked calls, as `simulate` makes them, refusals, rows, results, batches."""

from collections.abc import Callable, Container, Iterable
from typing import Any

import chex
import jax
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.engine import program
from jaxelim.simulation.experiment import Experiment
from jaxelim.simulation.plan import inputs_of, queue_of, settled, spec_of

PLACES = (je.bounds, je.contracts, je.families, je.rules, je.thresholds, je.errors, je)
NAMES = {name: getattr(place, name) for place in PLACES for name in dir(place)}
"""All public names, as for what a repr says."""


def rows(every: Iterable, fast: Container, name: Callable[[Any], str] | None = None) -> list:
    """The rows of a test, with ids by `name`; those that are not in `fast` are slow."""
    return [pytest.param(row, id=name and name(row), marks=() if row in fast else pytest.mark.slow)
            for row in every]  # fmt: skip


def checked(instance, problem, rule, **settings: Any) -> Experiment:
    """The checked call of a small simulation; `settings` are keywords of `simulate`."""
    usual = dict(delta=0.1, stopping=je.LLR(), elimination=None, threshold=je.Heuristic(), runs=2,
                 seed=0, max_samples=1000)  # fmt: skip
    return Experiment(instance=instance, problem=problem, rule=rule, **(usual | settings))


def planned(given: tuple, settings: dict) -> tuple:
    """The spec that a `checked` call compiles for, and its program's inputs and queue."""
    usual = dict(ridge=1.0, engine=je.Engine(devices=1))
    call = checked(*given, **usual | settings)
    with scope.engine():
        spec = spec_of(call)
        inputs = inputs_of(call, spec)
        return settled(call, spec, inputs), inputs, queue_of(call, spec)[0]


def refused(call, argument, *words, kind: Any = je.errors.ArgumentError):
    """The error of a call that refuses this argument in full words, before anything compiles."""
    before = {one for one in program.values() if one.traces}
    with pytest.raises(kind) as caught:
        call()
    assert {one for one in program.values() if one.traces} <= before
    error, text = caught.value, str(caught.value)
    assert error.argument == argument and error.allowed
    assert text.startswith(f"{argument}: got ") and "; allowed: " in text
    for word in words:
        assert word in text
    return error


RUNS = ("samples", "stopped", "answer", "correct", "pulls", "elimination_times", "tests_stopping",
        "tests_sampling")  # fmt: skip
"""All arrays of the runs of a result."""


def equal(one, other, of_one=..., of_other=..., fields=RUNS):
    """Arrays of two results are equal, where an index of each is taken."""
    chex.assert_trees_all_equal(*(
        jax.tree.map(lambda x, at=at: np.asarray(x)[at], {x: getattr(result, x) for x in fields})
        for result, at in ((one, of_one), (other, of_other))
    ))  # fmt: skip


def stack(instances):
    """One batch of instances, or of those of batches, of one family, source and costs."""
    several = [instances] if isinstance(instances, je.Instance) else instances
    parts = [part for one in several for part in one.unbatched]
    arms, theta = ([getattr(part, name) for part in parts] for name in ("arms", "theta"))
    first = parts[0]
    return je.Instance(arms, theta, family=first.family, source=first.source, costs=first.costs)
