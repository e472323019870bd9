"""The laws of whole runs, whatever is checked: layouts, waiting, stops, wrong answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxelim import engine
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.instances.instance import Instance
from jaxelim.simulation.api import simulate
from jaxelim.simulation.experiment import Engine
from jaxelim.simulation.results.result import Result, correct_answer
from jaxelim.stopping import LLR, FullElimination, SelectiveElimination
from jaxelim.testing.instances import variants
from jaxelim.testing.report import ErrorRate, Generator, World, require

STOPS = (LLR(), SelectiveElimination(), FullElimination())
WIDE, ALONE = Engine(lanes=16, shrink=False), Engine(lanes=8, chunk=64, devices=1)


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
    orders = [(f"{what}, with one order of the arms", [one]) for one in results]
    for i, stop in enumerate(results[0].stopping):
        for words, some in ((what, results), *orders):
            numbers = [(x.stopped & ~x.correct)[i].sum() for x in some], [
                x.samples[i].size for x in some], [x.truncated[i].sum() for x in some]  # fmt: skip
            errors, runs, cut = (int(sum(one)) for one in numbers)
            one = ErrorRate(words, stop.name, errors, runs, cut, delta, ends)
            if some is results:
                world.rates.append(one)
            require(one.verdict != "above", str(one))


def whole_runs(
    world: World, rng: Generator | None, *, problem: Problem, rule: SamplingRule,
    instance: Instance, stopping: Sequence[Any] = STOPS, one_run: SamplingRule | None = None,
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


def waiting_runs(
    world: World, rng: Generator, *, problem: Problem, rule: SamplingRule, instance: Instance,
    stopping: Any = STOPS[0],
) -> str:  # fmt: skip
    """While the rewards of batches wait, a run alone is that of a batch of runs."""
    call: dict[str, Any] = dict(delta=world.delta, stopping=stopping, seed=world.seed, batch=6,
                                delay=3, max_samples=300, **world.call)  # fmt: skip
    many, some = (simulate(instance, problem, rule, runs=runs, engine=layout, **call)
                  for runs, layout in ((16, WIDE), ([3, 15], ALONE)))  # fmt: skip
    same_runs(many, some, "rewards wait: some runs alone and in a batch", np.array([3, 15]))
    return "16 runs whose rewards wait, alone = in a batch"
