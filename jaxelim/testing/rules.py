"""The laws of a sampling rule."""

import dataclasses
import warnings
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import JaxelimError, StarvationWarning
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.simulation.api import trace
from jaxelim.stopping import LLR, Native
from jaxelim.testing.instances import easy_instance
from jaxelim.testing.report import ContractError, World, require, written
from jaxelim.testing.runs import STOPS, waiting_runs, whole_runs

STRESS = 20_000
"""Samples of the run with extreme rewards."""


def laws(world: World) -> list[tuple[str, Any]]:
    """The laws, with their names. Default problems and instances are those it is defined for."""
    rule: SamplingRule = world.thing
    problems = [one for one in (BestArm(), TopM(2), Thresholding())
                if rule.traits.defined_for(one.name)]  # fmt: skip
    problems = problems if world.problem is None else [world.problem]
    given = world.instance
    on = [easy_instance(one) for one in rule.traits.structures] if given is None else [given]
    known = {stop.name: stop for stop in (*STOPS, Native())}
    stopping = tuple(known[name] for name in rule.traits.stopping)
    one_run = run_by_run(rule) if rule.traits.lanes_last else None
    first: Any = dict(problem=problems[0], rule=rule, instance=on[0].unbatched[0])
    return [
        ("settings", lambda *_: written(rule)),
        *((f"runs of {one!r}, {instance.name or instance.structure}",
           partial(whole_runs, problem=one, rule=rule, instance=instance, stopping=stopping,
                   one_run=one_run)) for one in problems for instance in on),
        ("prepare", partial(prepare_is_blind, problem=problems[0], instance=on[0])),
        ("extreme rewards", partial(finite, problem=problems[0])),
        ("rewards that wait", partial(waiting_runs, **first, stopping=stopping[0])),
    ]  # fmt: skip


def run_by_run(rule: Any) -> Any:
    """A rule that is lanes last, with its methods called for each run under `jax.vmap`."""
    kind, traits = type(rule), dataclasses.replace(rule.traits, lanes_last=False)
    members = {"traits": traits, "__module__": kind.__module__}
    other = object.__new__(type(kind.__name__, (kind,), members))
    vars(other).update(vars(rule))
    return other


def prepare_is_blind(world: World, rng: Any, *, problem: Problem, instance: Instance) -> str:
    """Prepare for another theta too: what a rule may not know must not matter."""
    rule, alone = world.thing, instance.unbatched[0]
    if "truth" in rule.traits.reads:
        return "its traits read \"truth\": prepare may depend on theta"
    theta = alone.theta[::-1] if alone.structure == "unstructured" else -alone.theta
    try:
        other = Instance(alone.arms, theta, None, alone.name, alone.family)
    except JaxelimError:
        return "prepare was not tried: rewards are recorded, or -theta is out of range"
    ridge = world.call.get("ridge")
    both = [jax.tree.leaves(rule.prepare(two, problem, ridge)) for two in (alone, other)]
    same = len(both[0]) == len(both[1]) and all(map(np.array_equal, *both))
    require(same, "prepare depends on theta, and the rule's traits do not read \"truth\"")
    return "prepare gives the same for another theta"


def _never(t, delta):
    return 1e30 + 0 * (t + delta)


def finite(world: World, rng: Any, *, problem: Problem) -> str:
    """Run with rewards that make exponential weights underflow, and nearly equal arms."""
    rule, scale = world.thing, 1e4
    if rule.traits.structures == ("unstructured",):
        instance = Instance(np.eye(4), scale * np.array([1.0, 0.5, -0.5, -1.0]))
    else:
        arms = np.array([[1.0, 0.0], [1.0, 1e-6], [0.3, -1e-6], [-0.5, 2e-6]])
        instance = Instance(arms, scale * np.array([1.0, 3.0]))
    stopping = LLR() if "llr" in rule.traits.stopping else Native()
    with jax.debug_nans(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", StarvationWarning)  # no test ends this run
        try:
            run = trace(
                instance, problem, rule, stopping=stopping, threshold=_never,
                max_samples=STRESS, seed=world.seed, ridge=1.0,
            )  # fmt: skip
        except FloatingPointError as error:
            words = f"it made a NaN under rewards of {scale:g} and nearly singular designs: {error}"
            raise ContractError(words) from error
    inside = ((run.arms >= 0) & (run.arms < instance.K)).all()
    require(inside, "an arm out of range under nearly singular designs")
    return f"finite for {run.samples} samples, rewards of {scale:g} and nearly singular designs"
