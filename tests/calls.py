"""Checked calls for tests, as `simulate` makes them."""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest

import jaxelim as je
from jaxelim import scope
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


