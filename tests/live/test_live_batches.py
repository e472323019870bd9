"""Live runs with several arms out: those of `simulate` with a batch or a delay."""

import numpy as np
import pytest

import jaxelim as je
from tests.calls import rows
from tests.live.live_cases import CASES, TOP, Case

FAMILIES = {
    "bounded": Case(je.Instance.unstructured([0.9, 0.3, 0.1], je.Bounded(0, 1)), je.BestArm(),
                    je.TTUCB(), je.LLR(), threshold=je.Mixture()),
    "logistic": Case(je.Instance(np.eye(3), [1.5, -0.5, -1.5], family=je.Logistic()), je.BestArm(),
                     je.LinGame(), je.LLR()),
    "poisson": Case(je.Instance.unstructured([4.0, 2.0, 1.0], je.Poisson()), je.BestArm(),
                    je.FWS(), je.LLR()),
    "mixture": Case(TOP, je.TopM(2), je.LinGapE(), threshold=je.Mixture()),
}  # fmt: skip
BATCH = 5


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAMILIES, "tas", "rage", "ugape"])
def test_ask_n_is_a_batch(name):
    """`ask(n)`, then its rewards in any order: the pulls, the stop and the answer of batch=n."""
    case, rng = {**CASES, **FAMILIES}[name], np.random.default_rng(4)
    run = case.traced(max_samples=1500, batch=BATCH)
    live, s = case.live(), case.live().first
    live.tell(run.arms[:s], run.rewards[:s])
    while s < run.samples:
        assert not live.stopped, s
        size = min(BATCH, run.samples - s)
        asked = live.ask(size)
        assert asked == run.arms[s : s + size].tolist(), s
        assert live.ask(min(2, size)) == asked[:2] and live.waiting == tuple(asked)
        if size < BATCH:
            break
        # Rewards of one arm stay in the order of its pulls.
        first = rng.permutation(case.instance.K)
        order = sorted(range(size), key=lambda i: first[asked[i]])
        live.tell([asked[i] for i in order], run.rewards[s : s + size][order])
        s += size
    assert live.stopped == run.stopped
    if run.stopped:
        assert live.samples == run.samples
        np.testing.assert_array_equal(live.answer, run.answer)
        np.testing.assert_array_equal(live.counts, run.pulls)


@pytest.mark.parametrize("name", rows(("lingape", "lazy-tas", "optimistic-lingame"), {"lingape"}))
def test_a_window_of_arms_is_a_delay(name):
    """With D + 1 arms out, and the first told each time, a run is that of delay=D."""
    case, delay = CASES[name], 4
    run = case.traced(max_samples=1500, delay=delay)
    live, s = case.live(), case.live().first
    live.tell(run.arms[:s], run.rewards[:s])
    first = s
    while not live.stopped and s + delay < run.samples:
        assert live.ask(delay + 1) == run.arms[s : s + delay + 1].tolist(), s
        live.tell(int(run.arms[s]), run.rewards[s])
        s += 1
    assert live.stopped == run.stopped and s > first + 5
    if run.stopped:  # the pulls that are pending count in a simulated run
        assert live.samples + delay == run.samples
        np.testing.assert_array_equal(live.answer, run.answer)
