"""The laws of a threshold, and of a stopping rule."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxelim.contracts import StoppingRule
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm
from jaxelim.rules import Uniform
from jaxelim.simulation.api import simulate
from jaxelim.testing.instances import easy_instance, hard_instance
from jaxelim.testing.report import World, require, written
from jaxelim.testing.runs import STOPS, count, waiting_runs, whole_runs


def laws(world: World) -> list[tuple[str, Any]]:
    """The laws of a threshold, on hard instances where none is given."""
    problem, instance = world.problem or BestArm(), world.instance
    on = [instance] if instance else [hard_instance(problem, all_near=x) for x in (False, True)]
    stopping = world.call.pop("stopping", STOPS)
    job = dict(problem=problem, stopping=stopping if isinstance(stopping, Sequence) else [stopping])
    return [
        ("values", monotone),
        *((one.name or one.structure, partial(errors_are_rare, instance=one, **job)) for one in on),
    ]


def monotone(world: World, rng: Any) -> str:
    """beta(t, delta) is positive, does not fall in t, and does not rise in delta."""
    t, delta = np.geomspace(2, 1e8, 60)[:, None], np.geomspace(1e-12, 0.5, 40)
    beta = np.asarray(world.thing(*map(jnp.asarray, np.broadcast_arrays(t, delta))))
    require(beta.shape == (60, 40), f"of t and delta of shape (60, 40) it makes {beta.shape}")
    require(beta > 0, "beta({t:g}, {d:g}) is {b:g}; it has to be above 0", t=t, d=delta, b=beta)
    for axis, words in ((0, "falls in t"), (1, "rises in delta")):
        step = np.diff(beta, axis=axis) * (1 - 2 * axis)
        tiny = 1e-9 * beta[1:] if axis == 0 else 1e-9 * beta[:, 1:]
        require(step >= -tiny, f"it {words}")
    return "positive, does not fall in t, and does not rise in delta, at 2400 points"


def errors_are_rare(
    world: World, rng: Any, *, problem: Any, stopping: Sequence[Any], instance: Instance
) -> str:
    """Wrong answers, each stopping rule observed on the same runs."""
    result = simulate(
        instance, problem, world.rule or Uniform(), threshold=world.thing,
        stopping=tuple(stopping), delta=world.delta, runs=world.runs, max_samples=world.steps,
        seed=world.seed, **world.call,
    )  # fmt: skip
    name = instance.name or instance.structure
    count(world, f"{problem!r}, {instance.family!r}, {name}", [result], world.delta, False)
    return f"{name}: no stopping rule errs more often than delta, as far as the rates say"


def stopping_laws(world: World) -> list[tuple[str, Any]]:
    """The laws of a stopping rule, beside LLR stopping, with uniform sampling."""
    stop: StoppingRule = world.thing
    instance = easy_instance("unstructured") if world.instance is None else world.instance
    job = dict(problem=world.problem or BestArm(), rule=world.rule or Uniform(), instance=instance)
    return [
        ("settings", lambda *_: written(stop)),
        ("runs", partial(whole_runs, **job, stopping=(STOPS[0], stop))),
        ("rewards that wait", partial(waiting_runs, **job, stopping=stop)),
    ]
