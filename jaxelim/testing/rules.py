"""The laws of a sampling rule, of a stopping rule and of a threshold."""

import dataclasses
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import JaxelimError, StarvationWarning
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.rules import Uniform
from jaxelim.simulation.api import simulate, trace
from jaxelim.stopping import LLR, Native
from jaxelim.testing.instances import easy_instance, hard_instance
from jaxelim.testing.report import ContractError, Generator, World, require, settings
from jaxelim.testing.runs import STOPS, count, waiting_runs, whole_runs


def laws(world: World) -> list[tuple[str, Any]]:
    """Of a sampling rule. Default problems and instances are those it is defined for."""
    rule: SamplingRule = world.thing
    problems = [one for one in (BestArm(), TopM(2), Thresholding())
                if rule.traits.defined_for(one.name)]  # fmt: skip
    problems = problems if world.problem is None else [world.problem]
    given = world.instance
    on = [easy_instance(one) for one in rule.traits.structures] if given is None else [given]
    known = {stop.name: stop for stop in (*STOPS, Native())}
    job: Any = dict(rule=rule, stopping=tuple(known[name] for name in rule.traits.stopping),
                    one_run=run_by_run(rule) if rule.traits.lanes_last else None)  # fmt: skip
    first: Any = dict(problem=problems[0], instance=on[0].unbatched[0])
    return [
        ("settings", settings),
        *((f"runs of {one!r}, {instance.name or instance.structure}",
           partial(whole_runs, problem=one, instance=instance, **job))
          for one in problems for instance in on),
        ("prepare", partial(prepare_is_blind, **first)),
        ("extreme rewards", partial(finite, problem=problems[0])),
        ("rewards that wait",
         partial(waiting_runs, rule=rule, stopping=job["stopping"][0], **first)),
    ]  # fmt: skip


def run_by_run(rule: Any) -> Any:
    """A rule that is lanes last, with its methods called for each run under `jax.vmap`."""
    kind, traits = type(rule), dataclasses.replace(rule.traits, lanes_last=False)
    members = {"traits": traits, "__module__": kind.__module__}
    other = object.__new__(type(kind.__name__, (kind,), members))
    vars(other).update(vars(rule))
    return other


def prepare_is_blind(
    world: World, rng: Generator, *, problem: Problem, instance: Instance
) -> str:  # fmt: skip
    """Prepare for another theta too: what a rule may not know must not matter."""
    rule, ridge = world.thing, world.call.get("ridge")
    if "truth" in rule.traits.reads:
        return "its traits read \"truth\": prepare may depend on theta"
    theta = instance.theta[::-1] if instance.structure == "unstructured" else -instance.theta
    try:
        other = Instance(instance.arms, theta, None, instance.name, instance.family)
    except JaxelimError:
        return "prepare was not tried: rewards are recorded, or -theta is out of range"
    both = [jax.tree.leaves(rule.prepare(two, problem, ridge)) for two in (instance, other)]
    same = len(both[0]) == len(both[1]) and all(map(np.array_equal, *both))
    require(same, "prepare depends on theta, and the rule's traits do not read \"truth\"")
    return "prepare gives the same for another theta"


def finite(world: World, rng: Generator, *, problem: Problem) -> str:
    """Run with rewards that make exponential weights underflow, and nearly equal arms."""
    rule, scale = world.thing, 1e4
    arms, theta = np.eye(4), np.array([1.0, 0.5, -0.5, -1.0])
    if rule.traits.structures != ("unstructured",):
        arms = np.array([[1.0, 0.0], [1.0, 1e-6], [0.3, -1e-6], [-0.5, 2e-6]])
        theta = np.array([1.0, 3.0])
    said = f"under rewards of {scale:g} and nearly singular designs"
    with jax.debug_nans(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", StarvationWarning)  # no test ends this run
        try:
            run = trace(
                Instance(arms, scale * theta), problem, rule, max_samples=20_000, seed=world.seed,
                stopping=LLR() if "llr" in rule.traits.stopping else Native(), ridge=1.0,
                threshold=lambda t, delta: 1e30 + 0 * (t + delta),
            )  # fmt: skip
        except FloatingPointError as error:
            raise ContractError(f"it made a NaN {said}: {error}") from error
    require(((run.arms >= 0) & (run.arms < len(arms))).all(), f"an arm out of range {said}")
    return f"finite for {run.samples} samples {said}"


def stopping_laws(world: World) -> list[tuple[str, Any]]:
    """Of a stopping rule, beside LLR stopping, with uniform sampling."""
    instance = easy_instance("unstructured") if world.instance is None else world.instance
    job = dict(problem=world.problem or BestArm(), rule=world.rule or Uniform(), instance=instance)
    return [
        ("settings", settings),
        ("runs", partial(whole_runs, **job, stopping=(STOPS[0], world.thing))),
        ("rewards that wait", partial(waiting_runs, **job, stopping=world.thing)),
    ]


def threshold_laws(world: World) -> list[tuple[str, Any]]:
    """Of a threshold, on hard instances where none is given."""
    problem, instance = world.problem or BestArm(), world.instance
    on = [instance] if instance else [hard_instance(problem, all_near=x) for x in (False, True)]
    stopping = world.call.pop("stopping", STOPS)
    job = dict(problem=problem, stopping=stopping if isinstance(stopping, Sequence) else [stopping])
    return [
        ("values", monotone),
        *((one.name or one.structure, partial(errors_are_rare, instance=one, **job)) for one in on),
    ]


def monotone(world: World, rng: Generator | None) -> str:
    """beta(t, delta) is positive, does not fall in t, and does not rise in delta."""
    t, delta = np.geomspace(2, 1e8, 60)[:, None], np.geomspace(1e-12, 0.5, 40)
    beta = np.asarray(world.thing(*map(jnp.asarray, np.broadcast_arrays(t, delta))))
    require(beta.shape == (60, 40), f"of t and delta of shape (60, 40) it makes {beta.shape}")
    require(beta > 0, "beta({t:g}, {d:g}) is {b:g}; it has to be above 0", t=t, d=delta, b=beta)
    require(np.diff(beta, axis=0) >= -1e-9 * beta[1:], "it falls in t")
    require(np.diff(beta) <= 1e-9 * beta[:, 1:], "it rises in delta")
    return "positive, does not fall in t, and does not rise in delta, at 2400 points"


def errors_are_rare(
    world: World, rng: Generator, *, problem: Any, stopping: Sequence[Any], instance: Instance
) -> str:
    """Wrong answers, each stopping rule observed on the same runs."""
    result = simulate(
        instance, problem, world.rule or Uniform(), threshold=world.thing, stopping=stopping,
        delta=world.delta, runs=world.runs, max_samples=world.steps, seed=world.seed, **world.call,
    )  # fmt: skip
    name = instance.name or instance.structure
    count(world, f"{problem!r}, {instance.family!r}, {name}", [result], world.delta, False)
    return f"{name}: no stopping rule errs more often than delta, as far as the rates say"
