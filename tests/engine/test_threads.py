"""Eight calls at once, in threads that share programs, some of them interrupted."""

import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine
from jaxelim.engine.costs import Costs
from tests.foundations.test_cache import together
from tests.results.test_interrupts import assert_part_of, simulated

CUT = ("shared deltas", 3), ("two speeds", 3)
"""Calls that their callers interrupt, after some of the runs are over."""


@pytest.mark.parametrize(
    "cases",
    [
        ("shared deltas", "two speeds"),
        pytest.param(("shared deltas", "two speeds", "two devices"), marks=pytest.mark.slow),
    ],
    ids=" and ".join,
)
def test_eight_calls_at_once_are_those_of_one_after_the_other(cases, monkeypatch):
    """Runs are equal, interrupted calls keep what they have, and no measurement is lost."""
    calls = [(case, seed) for seed in (3, 4, 5, 6) for case in cases][:8]
    engine.program.cache_clear()
    found, paces, noted = {}, [], Costs.paced

    def paced(costs, pace):
        paces.append((costs, pace))
        noted(costs, pace)

    def progress(done, total, *_):
        if total > done >= 20:
            raise KeyboardInterrupt

    def call(case, seed):
        cut = (case, seed) in CUT
        try:
            found[case, seed] = simulated(case, seed=seed, progress=progress if cut else False)
            assert not cut
        except je.Interrupted as error:
            found[case, seed] = error.result
            assert cut

    monkeypatch.setattr(Costs, "paced", paced)
    together(*(lambda each=each: call(*each) for each in calls))
    programs = engine.program.values()
    assert len(programs) == len(cases) and {program.traces for program in programs} == {1}
    for program in programs:
        assert program.costs.pace == min(pace for costs, pace in paces if costs is program.costs)
        assert 0 < program.costs.compilation < np.inf
    for case, seed in calls:
        result = found[case, seed]
        assert result.timings["seconds"] > 0 and result.timings["samples_drawn"] > 0
        if (case, seed) in CUT:
            assert_part_of(result, simulated(case, seed=seed), case)
        else:
            assert result.equals(simulated(case, seed=seed)), (case, seed)
