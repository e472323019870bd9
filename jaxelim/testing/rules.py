"""The laws of whole runs, of a sampling rule, a stopping rule and a threshold; their instances.

On one instance alone a fixed answer may be right, and so may a stop after no evidence. So a
rule is tried on other orders of the arms, near ties and equal rivals, and a threshold on hard
instances.
"""

import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import checks, engine
from jaxelim.contracts import Family, Problem
from jaxelim.errors import JaxelimError, StarvationWarning, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.rules import Uniform
from jaxelim.simulation.api import trace
from jaxelim.simulation.experiment import Engine
from jaxelim.simulation.results.result import Result, correct_answer
from jaxelim.stopping import LLR, Native
from jaxelim.testing.report import STOPS, ContractError, ErrorRate, World, require, settings

Laws = list[tuple[str, Any, World]]
"""The name of each law, its function of a world, which returns what held in words, and that."""

WIDE, ALONE = Engine(lanes=16, shrink=False), Engine(lanes=8, chunk=64, devices=1)
ONE_LANE = Engine(lanes=16, chunk=32, devices=1, shrink=True)

MOST = 8  # orders of one instance's arms
NEAR = 0.05  # gaps of near ties, over those of the instance that they are made of


def easy_instance(structure: str) -> Instance:
    """A small instance of a structure, with Gaussian rewards, on which runs are short."""
    if structure == "unstructured":
        return Instance(np.eye(4), [1.2, 0.5, -0.6, -1.0], name="easy, unstructured")
    angles = np.array([0.1, 0.9, 2.2, 3.5, 4.4])
    return Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.5, 0.5], name="easy, linear")


def accepted(problem: Problem, instance: Instance) -> bool:
    """Whether the problem has a right answer there."""
    try:
        problem.check_arms(instance.arms)
        problem.check(instance.arms, instance.theta)
    except JaxelimError:
        return False
    return True


def orders(problem: Problem, instance: Instance) -> list[Instance]:
    """The instance, and its arms and their settings rotated: with up to `MOST` each is first once.

    A batch gives its instances as they are. An order that the problem refuses is left out.
    """
    if instance.batched:
        return list(instance)
    arms = "arms" if instance.structure == "linear" else "theta"
    moving = {name: getattr(instance, name) for name in (arms, "costs", "family", "source")}

    def moved(one: Any, by: int) -> Any:
        if isinstance(one, np.ndarray):
            return np.roll(one, by, 0)
        if not dataclasses.is_dataclass(one):
            return one
        every = ((x.name, getattr(one, x.name)) for x in dataclasses.fields(one))
        return dataclasses.replace(one, **{  # type: ignore[type-var]
            name: x[-by:] + x[:-by] for name, x in every
            if isinstance(x, tuple) and len(x) == instance.K})  # fmt: skip

    shifts = np.unique(np.linspace(0, instance.K, MOST, endpoint=False).astype(int))[1:].tolist()
    others = [instance.replace(**{name: moved(one, by) for name, one in moving.items()})
              for by in shifts]  # fmt: skip
    return [instance, *(other for other in others if accepted(problem, other))]


def variants(world: World) -> list[tuple]:
    """What a rule is tried on: words, orders of an instance, whether runs end, arguments.

    It is the instance, at delta and a tenth of it; with its gaps times `NEAR`; and for best arm
    with the mean of the second for all arms but the best: a rule may starve one of equal rivals.
    """
    problem, instance = world.problem, world.instance
    own, tenth = orders(problem, instance), {"delta": world.delta / 10}
    found: list[tuple] = [("", own, True, {}), (", delta/10", own, True, tenth)]
    level, linear = getattr(problem, "level", None), instance.structure == "linear"
    known = problem.name in ("best-arm", "top-m", "thresholding") and not (linear and level)
    if instance.batched or not known:
        return found
    means, few = instance.means, {"max_samples": min(world.steps, 300 + 2 * instance.K)}
    centre = means.mean() if level is None else level
    others = [(f", gaps times {NEAR}", centre + NEAR * (means - centre), False, few)]
    if problem.name == "best-arm" and not linear:
        second = np.sort(means)[-2 % means.size]
        others.append((", equal rivals", np.where(means == means.max(), means, second), True, {}))
    for words, of_arms, *rest in others:
        try:
            theta = NEAR * instance.theta if linear else instance.family.link(of_arms)
            found.append((words, orders(problem, instance.replace(theta=theta)), *rest))
        except JaxelimError:  # the source has means of its own
            continue
    return found


def means_at(family: Family, z: Any) -> np.ndarray:
    """Means inside the family's range, increasing in z."""
    low, high = getattr(family, "low", -np.inf), getattr(family, "high", np.inf)
    z = np.asarray(z, float)
    if np.isfinite(high - low):
        return low + (high - low) / (1 + np.exp(-2 * z))
    if np.isfinite(low):
        return low + np.exp(1.5 * z)
    return high - np.exp(-1.5 * z) if np.isfinite(high) else 3 * z


def hard_instance(
    problem: Problem,
    family: Family | None = None,
    arms: int = 4,
    gap: float = 1e-4,
    all_near: bool = False,
) -> Instance:
    """An unstructured instance with one true piece, or all, within `gap` of its boundary.

    With one, all but the best arm and one rival, the m-th arm and the next, or one arm at
    the level are far off. With all, every mean is `gap` from every other, or from the level,
    at most. The centre is the level for signs, else the middle of the family's range: 0 if it
    has no ends, 1 above its only one. The better arms come last, since ties go to the first.

    Args:
        problem: best arm, top m or signs.
        family: of the rewards; None: Gaussian(1.0).
        arms: K >= 2, or 1 for signs.
        gap: between near means, > 0.
        all_near: whether all arms are near.

    Raises:
        UnsupportedError: another problem.
        ArgumentError: arms or gap is out of range.
    """
    gap = checks.real("gap", gap, low=0, open=True)
    family = Gaussian() if family is None else family
    signs = problem.name == "thresholding"
    arms = checks.integer("arms", arms, low=1 if signs else 2)
    if not signs and problem.name not in ("best-arm", "top-m"):
        allowed = "best-arm, top-m, thresholding; for others give an instance"
        raise UnsupportedError("problem", problem, allowed)
    centre = problem.level if signs else float(means_at(family, 0))  # type: ignore[attr-defined]
    ends = (getattr(family, "low", -np.inf), getattr(family, "high", np.inf))
    room = np.abs(np.array(ends, float) - centre)
    far = 4 * room.min() if np.isfinite(room).any() else 3 * np.max(getattr(family, "std", 1.0))
    below, above = np.where(np.isfinite(room), 0.9 * room, far)
    place = np.arange(arms) - arms + ((arms + 1) // 2 if signs else problem.m)
    near = (place == 0) | ((place == -1) & (not signs)) | all_near
    away = np.where(near, gap / 2, np.where(place >= 0, above, below))
    means = centre + np.where(place >= 0, away, -away)
    name = "all near" if all_near else "one near"
    return Instance(np.eye(arms), means, name=name, family=family)


# The laws.


def laws(world: World) -> Laws:
    """Of a sampling rule. Default problems and instances are those it is defined for."""
    rule, traits = world.thing, world.thing.traits
    problems, on = [world.problem], [world.instance]
    if world.problem is None:
        every = BestArm(), TopM(2), Thresholding()
        problems = [one for one in every if traits.defined_for(one.name)]
    if world.instance is None:
        on = [easy_instance(one) for one in traits.structures]
    known = {stop.name: stop for stop in (*STOPS, Native())}
    stopping = tuple(known[name] for name in traits.stopping)
    runs = [world.but(problem=one, instance=instance, rule=rule, stopping=stopping)
            for one in problems for instance in on]  # fmt: skip
    first = runs[0].but(instance=on[0].unbatched[0], stopping=stopping[0])
    return [("settings", settings, world),
            *((f"runs of {one.problem!r}, {one.place}", whole_runs, one) for one in runs),
            ("prepare", prepare_is_blind, first), ("extreme rewards", finite, first),
            ("rewards that wait", waiting_runs, first)]  # fmt: skip


def stopping_laws(world: World) -> Laws:
    """Of a stopping rule, beside LLR stopping, with uniform sampling."""
    runs = world.but(
        problem=world.problem or BestArm(), rule=world.rule or Uniform(), stopping=world.thing,
        instance=world.instance or easy_instance("unstructured"))  # fmt: skip
    return [("settings", settings, world),
            ("runs", whole_runs, runs.but(stopping=(STOPS[0], world.thing))),
            ("rewards that wait", waiting_runs, runs)]  # fmt: skip


def threshold_laws(world: World) -> Laws:
    """Of a threshold, on hard instances where none is given."""
    problem, given = world.problem or BestArm(), world.instance
    on = [given] if given else [hard_instance(problem, all_near=x) for x in (False, True)]
    runs = [world.but(problem=problem, rule=world.rule or Uniform(), instance=one,
                      call=world.call | {"threshold": world.thing}) for one in on]  # fmt: skip
    return [("values", monotone, world), *((one.place, errors_are_rare, one) for one in runs)]


def run_by_run(rule: Any) -> Any:
    """A rule that is lanes last, with its methods called for each run under `jax.vmap`."""
    kind, traits = type(rule), dataclasses.replace(rule.traits, lanes_last=False)
    members = {"traits": traits, "__module__": kind.__module__}
    other = object.__new__(type(kind.__name__, (kind,), members))
    vars(other).update(vars(rule))
    return other


def whole_runs(world: World) -> str:
    """Runs are the same in every layout and form, their stops are in order, and seldom wrong."""
    rule, stopping, own = world.rule, world.stopping, world.thing is world.rule
    where = f"{world.problem!r}, {rule!r}, {world.place}"
    before, every = set(engine.program.values()), []
    tried = variants(world)
    for words, instances, ends, other in tried if own else tried[:1]:
        n, seed = -(-world.runs // len(instances)), world.seed + len(every)
        every.append([world.simulate(**{  # no two share noise
            "instance": one, "runs": np.arange(i * n, (i + 1) * n), "engine": WIDE, "seed": seed,
            **other}) for i, one in enumerate(instances)])  # fmt: skip
        count(world, f"{where}{words}", every[-1], other.get("delta", world.delta), ends)
    again = [one for one in set(engine.program.values()) - before if one.traces != 1]
    require(not again, f"{where}: traced more than once")
    for one in sum(every, []):
        tau = dict(zip((stop.name for stop in stopping), one.samples, strict=True))
        order = [name for name in ("full", "selective", "llr") if name in tau]
        for a, b in itertools.pairwise(order):
            require(tau[a] <= tau[b], f"a run has tau_{a} = {{a}}, tau_{b} = {{b}}",
                    a=tau[a], b=tau[b])  # fmt: skip
    rotations, many = tried[0][1], every[0][0]
    here = np.arange(many.samples.shape[-1])
    forms: list[Any] = [("a run alone and the same run in a batch", here[[k]], ALONE, {})
                        for k in here[1:10:2]]  # fmt: skip
    if own and rule.traits.lanes_last:
        one_run = {"rule": run_by_run(rule)}
        forms += [("lanes-last and vmapped forms", here[:40], WIDE, one_run),
                  ("runs in many lanes, and in one", here[:16], ONE_LANE, {})]  # fmt: skip
    if len(stopping) > 1 and stopping[-1] not in STOPS:
        forms += [(f"{stopping[-1].name} alone and beside other stopping rules", here[:40], WIDE,
                   {"stopping": stopping[-1]})]  # fmt: skip
    for what, its, layout, other in forms:
        alone = world.simulate(instance=rotations[0], runs=its, engine=layout, **other)
        same_runs(many, alone, f"{where}: {what}", its)
    answers = len({correct_answer(one, world.problem).tobytes() for one in rotations})
    blind = ": a rule that always answers the same is not seen" if answers == 1 else ""
    return (f"{where}: traced once, arms in range, {len(forms)} other layouts give the same runs; "
            f"{len(rotations)} orders of the arms with {answers} different right answers"
            f"{blind}")  # fmt: skip


def waiting_runs(world: World) -> str:
    """While the rewards of batches wait, a run alone is that of a batch of runs."""
    few = np.array([3, 15])
    many, some = (world.simulate(runs=runs, engine=layout, batch=6, delay=3, max_samples=300)
                  for runs, layout in ((16, WIDE), (few, ALONE)))  # fmt: skip
    same_runs(many, some, "rewards wait: some runs alone and in a batch", few)
    return "16 runs whose rewards wait, alone = in a batch"


def same_runs(one: Result, other: Result, what: str, take: Any) -> None:
    """Require the same runs of two results; `take`: those of the first. Its last stops count."""
    stops = slice(-len(other.stopping), None)
    for name in ("samples", "stopped", "answer", "pulls"):
        equal = np.array_equal(getattr(one, name)[stops][:, :, take], getattr(other, name))
        require(equal, f"{name} differ: {what}")


def count(world: World, what: str, results: Sequence[Result], delta: float, ends: bool) -> None:
    """Add the rates of wrong answers to the world's; none, nor that of one result, is above."""
    for i, stop in enumerate(results[0].stopping):
        rows = [((one.stopped & ~one.correct)[i].sum(), one.samples[i].size,
                 one.truncated[i].sum()) for one in results]  # fmt: skip
        said = [(what, np.sum(rows, 0)), *((f"{what}, with one order of the arms", row)
                                           for row in rows)]  # fmt: skip
        rates = [ErrorRate(words, stop.name, int(errors), int(runs), int(cut), delta, ends)
                 for words, (errors, runs, cut) in said]  # fmt: skip
        world.rates.append(rates[0])
        for rate in rates:
            require(rate.verdict != "above", str(rate))


def prepare_is_blind(world: World) -> str:
    """Prepare for another theta too: what a rule may not know must not matter."""
    rule, one = world.rule, world.instance
    if "truth" in rule.traits.reads:
        return "its traits read \"truth\": prepare may depend on theta"
    try:
        theta = one.theta[::-1] if one.structure == "unstructured" else -one.theta
        other = one.replace(theta=theta, source=None)
    except JaxelimError:
        return "prepare was not tried: rewards are recorded, or -theta is out of range"
    both = [jax.tree.leaves(rule.prepare(two, world.problem, world.call.get("ridge")))
            for two in (one, other)]  # fmt: skip
    same = len(both[0]) == len(both[1]) and all(map(np.array_equal, *both))
    require(same, "prepare depends on theta, and the rule's traits do not read \"truth\"")
    return "prepare gives the same for another theta"


def finite(world: World) -> str:
    """Run with rewards that make exponential weights underflow, and nearly equal arms."""
    traits, scale = world.rule.traits, 1e4
    one = Instance(np.eye(4), scale * np.array([1.0, 0.5, -0.5, -1.0]))
    if traits.structures != ("unstructured",):
        arms = [[1.0, 0.0], [1.0, 1e-6], [0.3, -1e-6], [-0.5, 2e-6]]
        one = Instance(arms, [scale, 3 * scale])
    said = f"under rewards of {scale:g} and nearly singular designs"
    with jax.debug_nans(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", StarvationWarning)  # no test ends this run
        try:
            run = trace(one, world.problem, world.rule, max_samples=20_000, ridge=1.0,
                        stopping=LLR() if "llr" in traits.stopping else Native(), seed=world.seed,
                        threshold=lambda t, delta: 1e30 + 0 * (t + delta))  # fmt: skip
        except FloatingPointError as error:
            raise ContractError(f"it made a NaN {said}: {error}") from error
    return f"finite for {run.samples} samples {said}"


def monotone(world: World) -> str:
    """beta(t, delta) is positive, does not fall in t, and does not rise in delta."""
    t, delta = np.geomspace(2, 1e8, 60)[:, None], np.geomspace(1e-12, 0.5, 40)
    beta = np.asarray(world.thing(*map(jnp.asarray, np.broadcast_arrays(t, delta))))
    require(beta.shape == (60, 40), f"of t and delta of shape (60, 40) it makes {beta.shape}")
    require(beta > 0, "beta({t:g}, {d:g}) is {b:g}; it has to be above 0", t=t, d=delta, b=beta)
    require(np.diff(beta, axis=0) >= -1e-9 * beta[1:], "it falls in t")
    require(np.diff(beta) <= 1e-9 * beta[:, 1:], "it rises in delta")
    return "positive, does not fall in t, and does not rise in delta, at 2400 points"


def errors_are_rare(world: World) -> str:
    """Wrong answers, each stopping rule observed on the same runs."""
    what = f"{world.problem!r}, {world.instance.family!r}, {world.place}"
    count(world, what, [world.simulate()], world.delta, False)
    return f"{world.place}: no stopping rule errs more often than delta, as far as the rates say"
