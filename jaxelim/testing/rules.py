"""The laws of whole runs: of a sampling rule, a stopping rule and a threshold."""

import dataclasses
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import engine
from jaxelim.contracts import SamplingRule
from jaxelim.errors import JaxelimError, StarvationWarning
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.rules import Uniform
from jaxelim.simulation.api import simulate, trace
from jaxelim.simulation.experiment import Engine
from jaxelim.simulation.results.result import Result, correct_answer
from jaxelim.stopping import LLR, FullElimination, Native, SelectiveElimination
from jaxelim.testing.instances import easy_instance, hard_instance, variants
from jaxelim.testing.report import ContractError, ErrorRate, World, require, settings

STOPS = (LLR(), SelectiveElimination(), FullElimination())
WIDE, ALONE = Engine(lanes=16, shrink=False), Engine(lanes=8, chunk=64, devices=1)


def laws(world: World) -> list[tuple[str, Any]]:
    """Of a sampling rule. Default problems and instances are those it is defined for."""
    rule, given = world.thing, world.instance
    problems = [one for one in (BestArm(), TopM(2), Thresholding())
                if rule.traits.defined_for(one.name)]  # fmt: skip
    problems = problems if world.problem is None else [world.problem]
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
    return [("values", monotone), *((one.name or one.structure, partial(
        errors_are_rare, problem=problem, instance=one)) for one in on)]  # fmt: skip


def run_by_run(rule: Any) -> Any:
    """A rule that is lanes last, with its methods called for each run under `jax.vmap`."""
    kind, traits = type(rule), dataclasses.replace(rule.traits, lanes_last=False)
    members = {"traits": traits, "__module__": kind.__module__}
    other = object.__new__(type(kind.__name__, (kind,), members))
    vars(other).update(vars(rule))
    return other


def whole_runs(
    world: World, rng: Any, *, problem: Any, rule: SamplingRule, instance: Instance,
    stopping: Sequence[Any] = STOPS, one_run: Any = None,
) -> str:  # fmt: skip
    """Runs are the same in every layout, their stops are in order, and seldom wrong.

    A rule is tried with near ties, equal rivals and delta/10, too, and with its form for one run.
    """
    where = f"{problem!r}, {rule!r}, {instance.name or instance.structure}"

    def run(one: Instance, runs: Any, layout: Engine = WIDE, **other: Any) -> Result:
        call: dict[str, Any] = dict(rule=rule, stopping=stopping, delta=world.delta, runs=runs,
                                    seed=world.seed, max_samples=world.steps)  # fmt: skip
        return simulate(one, problem, engine=layout, **{**call, **world.call, **other})

    before, every = set(engine.program.values()), []
    tried = variants(problem, instance, world.delta, world.steps)
    for words, instances, ends, other in tried if world.thing is rule else tried[:1]:
        n, other = -(-world.runs // len(instances)), {"seed": world.seed + len(every)} | other
        every.append([run(one, np.arange(i * n, (i + 1) * n), **other)  # no two share noise
                      for i, one in enumerate(instances)])  # fmt: skip
        count(world, f"{where}{words}", every[-1], other.get("delta", world.delta), ends)
    fresh = set(engine.program.values()) - before
    require(all(program.traces == 1 for program in fresh), f"{where}: traced more than once")
    for one in sum(every, []):
        right = np.array_equal(one.pulls.sum(-1), one.samples) and (one.pulls >= 1).all()
        require(right, f"{where}: arms out of range 0 .. {instance.K - 1}")
        tau = dict(zip((stop.name for stop in stopping), one.samples, strict=True))
        if {"llr", "selective", "full"} <= tau.keys():
            full, selective, llr = (tau[name] for name in ("full", "selective", "llr"))
            require((full <= selective) & (selective <= llr), "a run has tau_full = {full}, "
                    "tau_selective = {selective}, tau_LLR = {llr}", full=full,
                    selective=selective, llr=llr)  # fmt: skip
    rotations, many = tried[0][1], every[0][0]
    here = np.arange(many.samples.shape[-1])
    forms: list[Any] = [("a run alone and the same run in a batch", here[[k]], ALONE, {})
                        for k in here[1:10:2]]  # fmt: skip
    if one_run is not None:
        single = Engine(lanes=16, chunk=32, devices=1, shrink=True)
        forms += [("lanes-last and vmapped forms", here[:40], WIDE, {"rule": one_run}),
                  ("runs in many lanes, and in one", here[:16], single, {})]  # fmt: skip
    if len(stopping) > 1 and stopping[-1] not in STOPS:
        forms += [(f"{stopping[-1].name} alone and beside other stopping rules", here[:40], WIDE,
                   {"stopping": stopping[-1]})]  # fmt: skip
    for what, its, layout, other in forms:
        same_runs(many, run(rotations[0], its, layout, **other), f"{where}: {what}", its)
    answers = len({correct_answer(one, problem).tobytes() for one in rotations})
    blind = ": a rule that always answers the same is not seen" if answers == 1 else ""
    return (f"{where}: traced once, arms in range, {len(forms)} other layouts give the same runs; "
            f"{len(rotations)} orders of the arms with {answers} different right answers"
            f"{blind}")  # fmt: skip


def waiting_runs(world: World, rng: Any, *, stopping: Any = STOPS[0], **job: Any) -> str:
    """While the rewards of batches wait, a run alone is that of a batch of runs."""
    call: dict[str, Any] = dict(delta=world.delta, stopping=stopping, seed=world.seed, batch=6,
                                delay=3, max_samples=300, **world.call)  # fmt: skip
    many, some = (simulate(**job, runs=runs, engine=layout, **call)
                  for runs, layout in ((16, WIDE), ([3, 15], ALONE)))  # fmt: skip
    same_runs(many, some, "rewards wait: some runs alone and in a batch", np.array([3, 15]))
    return "16 runs whose rewards wait, alone = in a batch"


def same_runs(one: Result, other: Result, what: str, take: Any) -> None:
    """Require the same runs of two results; `take`: those of the first. Its last stops count."""
    stops = slice(-len(other.stopping), None)
    for name in ("samples", "stopped", "answer", "pulls"):
        equal = np.array_equal(getattr(one, name)[stops][:, :, take], getattr(other, name))
        require(equal, f"{name} differ: {what}")


def count(world: World, what: str, results: Sequence[Result], delta: float, ends: bool) -> None:
    """Add the rates of wrong answers of the runs of several instances to those of the world.

    Raises:
        ContractError: one is above delta, over all runs or over those of one instance.
    """
    for i, stop in enumerate(results[0].stopping):
        rows = [((one.stopped & ~one.correct)[i].sum(), one.samples[i].size,
                 one.truncated[i].sum()) for one in results]  # fmt: skip
        orders = [(f"{what}, with one order of the arms", [row]) for row in rows]
        for words, some in ((what, rows), *orders):
            errors, runs, cut = map(int, np.sum(some, 0))
            one = ErrorRate(words, stop.name, errors, runs, cut, delta, ends)
            if some is rows:
                world.rates.append(one)
            require(one.verdict != "above", str(one))


def prepare_is_blind(world: World, rng: Any, *, problem: Any, instance: Instance) -> str:
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


def finite(world: World, rng: Any, *, problem: Any) -> str:
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


def monotone(world: World, rng: Any) -> str:
    """beta(t, delta) is positive, does not fall in t, and does not rise in delta."""
    t, delta = np.geomspace(2, 1e8, 60)[:, None], np.geomspace(1e-12, 0.5, 40)
    beta = np.asarray(world.thing(*map(jnp.asarray, np.broadcast_arrays(t, delta))))
    require(beta.shape == (60, 40), f"of t and delta of shape (60, 40) it makes {beta.shape}")
    require(beta > 0, "beta({t:g}, {d:g}) is {b:g}; it has to be above 0", t=t, d=delta, b=beta)
    require(np.diff(beta, axis=0) >= -1e-9 * beta[1:], "it falls in t")
    require(np.diff(beta) <= 1e-9 * beta[:, 1:], "it rises in delta")
    return "positive, does not fall in t, and does not rise in delta, at 2400 points"


def errors_are_rare(world: World, rng: Any, *, problem: Any, instance: Instance) -> str:
    """Wrong answers, each stopping rule observed on the same runs."""
    call: dict[str, Any] = {"stopping": STOPS, **world.call}
    result = simulate(
        instance, problem, world.rule or Uniform(), threshold=world.thing, delta=world.delta,
        runs=world.runs, max_samples=world.steps, seed=world.seed, **call,
    )  # fmt: skip
    name = instance.name or instance.structure
    count(world, f"{problem!r}, {instance.family!r}, {name}", [result], world.delta, False)
    return f"{name}: no stopping rule errs more often than delta, as far as the rates say"
