"""The check of runs whose rewards wait: in batches, for a delay, and in live runs."""

from typing import Any

import numpy as np

from jaxelim.contracts import Problem, SamplingRule
from jaxelim.instances.instance import Instance
from jaxelim.live import LiveRun
from jaxelim.simulation.api import simulate, trace
from jaxelim.simulation.experiment import Engine
from jaxelim.stopping.llr import LLR, Native
from jaxelim.testing.report import require, same_runs
from jaxelim.thresholds.basic import Heuristic

BATCH, LONGEST, RUNS = 6, 300, 16
"""Pulls of a batch, and the samples and the number of the runs, at most."""


def check_waiting(
    rule: SamplingRule, problem: Problem, instance: Instance, delta: float, seed: int, ridge: Any
) -> str:
    """Compare runs whose rewards wait, alone and in a batch, and a live run with batches.

    Raises:
        ContractError: they differ.
    """
    stopping = LLR() if "llr" in rule.traits.stopping else Native()
    common: dict[str, Any] = dict(delta=delta, stopping=stopping, seed=seed, ridge=ridge)
    waits: dict[str, Any] = {"batch": BATCH, "delay": 3, "max_samples": LONGEST}
    many, some = (
        simulate(instance, problem, rule, runs=runs, engine=layout, **common, **waits)
        for runs, layout in (
            (RUNS, Engine(lanes=16, devices=1)),
            ([3, RUNS - 1], Engine(lanes=32, chunk=64, devices=1)),
        )
    )  # fmt: skip
    where = f"with batch={BATCH} and a delay: some runs alone and in a batch"
    same_runs(many, some, where, np.array([3, RUNS - 1]))
    said = f"{RUNS} runs whose rewards wait, alone = in a batch"
    if "truth" in rule.traits.reads:
        return f"{said}; live runs do not take it"
    return f"{said}; {_live(rule, problem, instance, common)}"


def _live(rule: SamplingRule, problem: Problem, instance: Instance, common: dict) -> str:
    """Ask a live run for arms at once, and compare them with the pulls of a batch."""
    given: dict[str, Any] = {**common, "threshold": Heuristic()}
    run = trace(instance, problem, rule, max_samples=LONGEST, batch=BATCH, **given)
    live = LiveRun(instance.arms, problem, rule, family=instance.family, **given)
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
    return f"arms that a live run gives at once are the pulls of batch={BATCH}, {s} samples"
