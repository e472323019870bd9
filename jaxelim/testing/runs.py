"""The laws of whole runs, whatever is checked: layouts, waiting, stops, wrong answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxelim import engine
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.instances.instance import Instance
from jaxelim.live import LiveRun
from jaxelim.simulation.api import simulate, trace
from jaxelim.simulation.experiment import Engine
from jaxelim.simulation.results.result import Result, correct_answer
from jaxelim.stopping import LLR, FullElimination, SelectiveElimination
from jaxelim.testing.instances import NEAR, equal_rivals, near_ties, orders
from jaxelim.testing.report import ErrorRate, World, require
from jaxelim.thresholds.basic import Heuristic

STOPS = (LLR(), SelectiveElimination(), FullElimination())
WIDE = Engine(lanes=16, shrink=False)
BATCH, DELAY, LONGEST = 6, 3, 300
"""Of the runs whose rewards wait: pulls of a batch, a delay, and most samples."""


def same_runs(one: Result, other: Result, what: str, take: Any = slice(None)) -> None:
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
        each = [
            ErrorRate(what, stop.name, int((x.stopped & ~x.correct)[i].sum()), x.samples[i].size,
                      int(x.truncated[i].sum()), delta, ends)
            for x in results
        ]  # fmt: skip
        errors, n, cut = (sum(getattr(x, name) for x in each)
                          for name in ("errors", "runs", "truncated"))  # fmt: skip
        whole = ErrorRate(what, stop.name, errors, n, cut, delta, ends)
        world.rates.append(whole)
        require(whole.verdict != "above", str(whole))
        bad = [str(x) for x in each if x.verdict == "above"]
        require(not bad, f"{''.join(bad[:1])}, with one order of the arms")


def whole_runs(
    world: World, rng: Any, *, problem: Problem, rule: SamplingRule, instance: Instance,
    stopping: Sequence[Any] = STOPS, one_run: SamplingRule | None = None,
) -> str:  # fmt: skip
    """Runs are the same in every layout, their stops are in order, and seldom wrong.

    Args:
        world: of the check; a rule is tried with near ties, equal rivals and delta/10, too.
        rng: not used.
        problem, rule, instance, stopping: of the runs.
        one_run: the rule in a form for one run, to compare with.
    """
    where = f"{problem!r}, {rule!r}, {instance.name or instance.structure}"
    delta, steps, seed = world.delta, world.steps, world.seed

    def run(one: Instance, runs: Any, layout: Engine = WIDE, **other: Any) -> Result:
        call: dict[str, Any] = {"stopping": tuple(stopping), "delta": delta, "max_samples": steps,
                                "seed": seed, **world.call, **other}  # fmt: skip
        return simulate(one, problem, call.pop("rule", rule), runs=runs, engine=layout, **call)

    def dealt(words: str, instances: list[Instance], ends: bool = True, **other: Any) -> list:
        """The runs of each instance: other runs of the seed, so that no two share noise."""
        share = -(-world.runs // len(instances))
        results = [run(one, np.arange(i * share, (i + 1) * share), **other)
                   for i, one in enumerate(instances)]  # fmt: skip
        count(world, f"{where}{words}", results, other.get("delta", delta), ends)
        return results

    rotations, before = orders(problem, instance), set(engine.program.values())
    every = dealt("", rotations)
    if isinstance(world.thing, SamplingRule):
        every = every + dealt(", delta/10", rotations, delta=delta / 10, seed=seed + 1)
        close, equal = near_ties(problem, instance), equal_rivals(problem, instance)
        if close is not None:
            few = min(steps, LONGEST + 2 * instance.K)
            every = every + dealt(f", gaps times {NEAR}", orders(problem, close), False,
                                  max_samples=few, seed=seed + 2)  # fmt: skip
        if equal is not None:
            every = every + dealt(", equal rivals", orders(problem, equal), seed=seed + 3)
    fresh = set(engine.program.values()) - before
    require(all(program.traces == 1 for program in fresh), f"{where}: traced more than once")
    for one in every:
        right = np.array_equal(one.pulls.sum(-1), one.samples) and (one.pulls >= 1).all()
        require(right, f"{where}: arms out of range 0 .. {instance.K - 1}")
        tau = dict(zip((stop.name for stop in stopping), one.samples, strict=True))
        if {"llr", "selective", "full"} <= tau.keys():
            full, selective, llr = (tau[name] for name in ("full", "selective", "llr"))
            require((full <= selective) & (selective <= llr), "a run has tau_full = {full}, "
                    "tau_selective = {selective}, tau_LLR = {llr}", full=full,
                    selective=selective, llr=llr)  # fmt: skip
    many = every[0]
    here = np.arange(many.samples.shape[-1])
    alone = Engine(lanes=8, chunk=64, devices=1)
    forms: list[Any] = [("a run alone and the same run in a batch", here[[k]], alone, {})
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


def waiting_runs(
    world: World, rng: Any, *, problem: Problem, rule: SamplingRule, instance: Instance,
    stopping: Any = STOPS[0],
) -> str:  # fmt: skip
    """While rewards wait, a run alone is that of a batch, and a live run pulls as `batch=`."""
    call: dict[str, Any] = dict(delta=world.delta, stopping=stopping, seed=world.seed, **world.call)
    waits: dict[str, Any] = {"batch": BATCH, "delay": DELAY, "max_samples": LONGEST}
    many, some = (
        simulate(instance, problem, rule, runs=runs, engine=layout, **call, **waits)
        for runs, layout in (
            (16, Engine(lanes=16, devices=1)),
            ([3, 15], Engine(lanes=32, chunk=64, devices=1)),
        )
    )
    what = f"with batch={BATCH} and a delay: some runs alone and in a batch"
    same_runs(many, some, what, np.array([3, 15]))
    said = "16 runs whose rewards wait, alone = in a batch"
    if not isinstance(world.thing, SamplingRule) or "truth" in rule.traits.reads:
        return said
    call = {"threshold": Heuristic(), **call}
    run = trace(instance, problem, rule, max_samples=LONGEST, batch=BATCH, **call)
    live = LiveRun(instance.arms, problem, rule, family=instance.family, **call)
    s = live.first
    live.tell(run.arms[:s], run.rewards[:s])
    while s < run.samples:
        size = min(BATCH, run.samples - s)
        pulls = run.arms[s : s + size].tolist()
        require(not live.stopped, f"a live run stops after {s} rewards, batch={BATCH} does not")
        arms = live.ask(size)
        words = f"after {s} rewards a live run gives arms {arms} at once, batch={BATCH} pulls"
        require(arms == pulls, f"{words} {pulls}")
        if size < BATCH:
            break
        live.tell(arms, run.rewards[s : s + size])
        s += size
    same = live.stopped == run.stopped
    require(same, f"after {s} rewards one of a live run and batch={BATCH} has stopped")
    return f"{said}; arms that a live run gives at once are the pulls of batch={BATCH}"
