"""Eight calls at once, in threads that share programs, some of them interrupted."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine
from tests.foundations.test_cache import together

EASY = je.Instance(np.eye(3), [1.0, 0.8, 0.0], name="easy")
CUT = ("uniform", 3), ("tas", 3)
"""Calls that their callers interrupt, after some of the runs are over."""
RULES = {"uniform": je.Uniform(), "tas": je.TrackAndStop()}


def simulated(name, seed, **more):
    layout = je.Engine(lanes=16, chunk=16, devices=1, shrink=False)
    return je.simulate(EASY, je.BestArm(), RULES[name], runs=60, delta=[0.1, 0.01], seed=seed,
                       stopping=(je.LLR(), je.SelectiveElimination()), engine=layout,
                       **more)  # fmt: skip


@pytest.mark.slow
def test_eight_calls_at_once_are_those_of_one_after_the_other():
    """Runs are equal, and an interrupted call leaves the others alone."""
    calls = [(name, seed) for seed in (3, 4, 5, 6) for name in RULES]
    engine.program.cache_clear()
    found = {}

    def progress(done, total, *_):
        if total > done >= 20:
            raise KeyboardInterrupt

    def call(name, seed):
        cut = (name, seed) in CUT
        try:
            found[name, seed] = simulated(name, seed, progress=progress if cut else False)
            assert not cut
        except je.errors.Interrupted:
            assert cut

    together(*(lambda each=each: call(*each) for each in calls))
    programs = engine.program.values()
    assert len(programs) == len(RULES) and {program.traces for program in programs} == {1}
    assert len(found) == len(calls) - len(CUT)
    for each, result in found.items():
        assert result.timings["seconds"] > 0 and result.timings["samples_drawn"] > 0
        assert result.equals(simulated(*each)), each
