"""The check of whole runs of a reward family."""

from typing import Any

import numpy as np
from scipy.stats import binom

from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm
from jaxelim.sampling import Uniform
from jaxelim.simulation.api import Engine, simulate
from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR
from jaxelim.testing import family_checks
from jaxelim.testing.report import LUCK, require, same_runs


def check_whole_runs(instance: Instance, rng: np.random.Generator) -> str:
    """The order of the three stops, errors, and a run alone as in a batch."""
    runs, delta, cap = 40, 0.1, 3000
    given: Any = dict(
        delta=delta, max_samples=cap, seed=int(rng.integers(2**31)),
        stopping=(LLR(), SelectiveElimination(), FullElimination()),
        engine=Engine(lanes=16, devices=1),
    )  # fmt: skip
    job = instance, BestArm(), Uniform()
    many = simulate(*job, runs=runs, **given)
    one = runs // 2
    alone = simulate(*job, runs=[one], **given)
    same_runs(many, alone, "a run alone and the same run in a batch", np.array([one]))
    llr, selective, full = many.samples[:, 0]
    family_checks.law(
        (full <= selective) & (selective <= llr),
        "a run has tau_full = {full}, tau_selective = {selective}, tau_LLR = {llr}",
        full=full, selective=selective, llr=llr,
    )  # fmt: skip
    errors = int((many.stopped & ~many.correct).sum(-1).max())
    limit = int(binom.isf(LUCK / 10, runs, delta))
    sentence = f"{errors} errors in {runs} runs at delta = {delta}; at most {limit} allowed"
    require(errors <= limit, sentence)
    return (
        f"{runs} runs with Uniform, {int(many.stopped[0].sum())} of them stopped within {cap} "
        "samples: tau_full <= tau_selective <= tau_LLR, alone = in a batch, "
        f"{errors} errors at delta = {delta}"
    )
