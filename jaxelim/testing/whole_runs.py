"""The check of whole runs of a reward family."""

from typing import Any

import numpy as np
from scipy.stats import binom

from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm
from jaxelim.rules import EBTCI, Uniform
from jaxelim.simulation.api import simulate
from jaxelim.simulation.experiment import Engine
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR
from jaxelim.testing import family_checks
from jaxelim.testing.orders import orders
from jaxelim.testing.report import LUCK, require, same_runs


def check_whole_runs(instance: Instance, rng: np.random.Generator) -> str:
    """The order of the three stops, errors, and a run alone as in a batch.

    The runs are dealt to the instance with its arms in other orders.
    """
    runs, delta, cap = 40, 0.1, 3000
    rotations = orders(BestArm(), instance)
    dealt = np.array_split(np.arange(runs), len(rotations))
    settings: Any = dict(
        delta=delta, max_samples=cap, seed=int(rng.integers(2**31)),
        stopping=(LLR(), SelectiveElimination(), FullElimination()),
        engine=Engine(lanes=16, devices=1),
    )  # fmt: skip
    job = BestArm(), Uniform()
    many = [
        simulate(of_order, *job, runs=its, **settings)
        for of_order, its in zip(rotations, dealt, strict=True)
    ]
    for place in range(1, dealt[-1].size, 2):  # each has a neighbour in the batch, and none alone
        alone = simulate(rotations[-1], *job, runs=dealt[-1][[place]], **settings)
        words = "a run alone and the same run in a batch"
        same_runs(many[-1], alone, words, np.array([place]))
    waiting(rotations[-1], settings["seed"])
    llr, selective, full = np.concatenate([of_order.samples[:, 0] for of_order in many], -1)
    family_checks.law(
        (full <= selective) & (selective <= llr),
        "a run has tau_full = {full}, tau_selective = {selective}, tau_LLR = {llr}",
        full=full, selective=selective, llr=llr,
    )  # fmt: skip
    wrong = sum((of_order.stopped & ~of_order.correct).sum((1, 2)) for of_order in many)
    errors, ended = int(np.max(wrong)), sum(int(of_order.stopped[0].sum()) for of_order in many)
    limit = int(binom.isf(LUCK / 10, runs, delta))
    sentence = f"{errors} errors in {runs} runs at delta = {delta}; at most {limit} allowed"
    require(errors <= limit, sentence)
    late = "" if ended == runs else " (the others count as no error)"
    return (
        f"{runs} runs with Uniform, the arms in {len(rotations)} orders, {ended} of them stopped "
        f"within {cap} samples{late}: tau_full <= tau_selective <= tau_LLR, alone = in a batch, "
        f"with rewards that wait too, {errors} errors at delta = {delta}"
    )


def waiting(instance: Instance, seed: int) -> None:
    """Check that runs of a rule that reads evidence are the same alone while rewards wait."""
    settings: Any = dict(delta=0.1, max_samples=300, seed=seed, batch=4, delay=3)
    many, alone = (
        simulate(instance, BestArm(), EBTCI(), runs=runs, engine=layout, **settings)
        for runs, layout in (
            (12, Engine(lanes=16, devices=1)), ([7], Engine(lanes=32, chunk=64, devices=1)),
        )
    )  # fmt: skip
    words = "a run alone and the same run in a batch, while rewards wait"
    same_runs(many, alone, words, np.array([7]))
