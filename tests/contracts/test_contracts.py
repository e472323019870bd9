"""Contracts of exported rules, problems and thresholds, and what the checks detect."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.contracts.sets import ArmSet
from jaxelim.lanes import LaneOps
from jaxelim.simulation.results import two_samples
from jaxelim.testing import ContractError, check

CASES = {
    "fws": je.BestArm(), "lazy-tas": je.TopM(2), "lingame": je.Thresholding(), "lucb": je.TopM(2),
    "oracle": je.Thresholding(), "racing": je.BestArm(), "rage": je.BestArm(), "tas": je.TopM(2),
    "top-two": je.Thresholding(),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rules(name):
    steps, many = (300, 100) if name == "tas" else (3000, 400)
    check(catalogue.rules()[name](), CASES[name], steps=steps, runs=many)


@pytest.mark.parametrize("problem", [je.BestArm(), je.TopM(4), je.Thresholding(0.3)], ids=repr)
def test_problems(problem):
    told = []
    report = str(check(problem, progress=lambda *now: told.append(now[:3])))
    assert told == [(n, 2, 0) for n in range(3)]
    assert report.splitlines()[0].endswith(": passed") and "300 pairs" in report


@pytest.mark.parametrize("answer", [0, 1])
def test_the_number_of_active_pieces(answer):
    """Of a set of arms: all that are left but the answer, which may have been dropped itself."""
    pieces = ArmSet(jnp.asarray([7, 0, 0, 9], jnp.int32), jnp.int32(2))
    seen = SimpleNamespace(lanes=LaneOps(None), answer=jnp.int32(answer))
    assert pieces.active_count(seen) == pieces.active(seen).sum() == (2 if answer == 0 else 1)


@pytest.mark.slow
def test_half_spaces_pass_as_a_problem():
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(4, 3))
    directions = np.stack([np.delete(arms[i] - arms, i, 0) for i in range(4)])
    best = je.HalfSpaces(lambda theta: jnp.argmax(jnp.asarray(arms) @ theta), directions)
    check(best, instance=je.Instance(arms, rng.normal(size=3)))
    wrong = je.HalfSpaces(lambda theta: jnp.argmax(jnp.asarray(arms) @ theta), directions[:, :2])
    with pytest.raises(ContractError, match="in a piece"):
        check(wrong, instance=je.Instance(arms, rng.normal(size=3)))


def reached(threshold, d, delta=0.05, runs=2000, steps=2000):
    """99.9% bounds on P(L_t reaches beta), L_t = sum_k N_k (mean_k - mu_k)^2/2, in turn."""
    rng, times = np.random.default_rng(0), np.arange(d, steps + 1, dtype=float)
    beta = np.asarray(threshold(jnp.asarray(times), jnp.full(times.shape, delta)))
    sums, counts, over = np.zeros((runs, d)), np.zeros(d), np.zeros(runs, bool)
    for t in range(1, steps + 1):
        sums[:, (t - 1) % d] += rng.standard_normal(runs)
        counts[(t - 1) % d] += 1
        if t >= d:
            over |= (sums**2 / counts).sum(1) / 2 >= beta[t - d]
    return two_samples.rate(int(over.sum()), runs, 0.999)


def test_thresholds():
    """If L_t reaches a threshold with probability above delta + 0.02, its interval sees it."""
    assert reached(je.thresholds.LinearThreshold(3, 1.0, 1.0), 3).high < 0.05
    # The paper's heuristic threshold does not grow with d: for d = 3 it exceeds delta.
    assert reached(je.Heuristic(), 3).low > 0.05 > reached(je.Heuristic(), 1).high
    assert reached(je.GK16(), 1).value > 0
    assert reached(lambda t, delta: jnp.log((1 + t) / delta) / 8, 3).low > 0.5


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Sloppy(je.contracts.SamplingRule):
    """Pulls arms out of range.

    Args:
        step: stride over the arms.
    """

    step: int = 7
    traits = je.contracts.Traits(reads=("rewards", "pieces"))

    def choose(self, view, state):
        return view.t * self.step, state


def test_the_check_detects_arms_out_of_range():
    with pytest.raises(ContractError, match="allowed: a rule that chooses arms from 0 to 2"):
        check(
            Sloppy(), je.BestArm(), je.Instance(np.eye(3), [1.0, 0.0, 0.0]), runs=40, steps=100
        )


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Undocumented(je.Uniform):
    """Leaves its argument undocumented."""

    hidden: int = 1


def test_the_check_reads_docstrings():
    with pytest.raises(ContractError, match="hidden"):
        check(Undocumented())
