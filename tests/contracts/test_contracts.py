"""Contracts of exported rules, problems and thresholds, and what the checks detect."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import catalogue
from jaxelim.lanes import LaneOps
from jaxelim.problems.sets import ArmSet
from jaxelim.simulation.results import two_samples
from jaxelim.testing import (
    ContractError,
    check_problem,
    check_sampling_rule,
    rule_checks,
    waiting_checks,
)

HEAVY = ("tas", "optimistic-tas")
CASES = [
    (name, problem)
    for name, kind in catalogue.rules().items()
    for problem in (je.BestArm(), je.TopM(2), je.Thresholding())
    if kind.traits.defined_for(problem.name)
]


@pytest.mark.slow
@pytest.mark.parametrize("name,problem", CASES, ids=lambda x: x if isinstance(x, str) else repr(x))
def test_rules(name, problem):
    rule = catalogue.rules()[name]()
    print(
        check_sampling_rule(
            rule, problem, steps=300 if name in HEAVY else 3000, runs=100 if name in HEAVY else 400
        )
    )


@pytest.mark.parametrize(
    "problem",
    [je.BestArm(), je.TopM(2), je.TopM(4), je.Thresholding(), je.Thresholding(0.3)],
    ids=repr,
)
def test_problems(problem):
    told = []
    report = str(check_problem(problem, progress=lambda *now: told.append(now[:3])))
    assert told == [(n, 2, 0) for n in range(3)]
    assert report.splitlines()[0].endswith(": passed") and "300 draws" in report


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
    check_problem(best, je.Instance(arms, rng.normal(size=3)))
    wrong = je.HalfSpaces(lambda theta: jnp.argmax(jnp.asarray(arms) @ theta), directions[:, :2])
    with pytest.raises(ContractError, match="in a piece"):
        check_problem(wrong, je.Instance(arms, rng.normal(size=3)))


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
    with pytest.raises(ContractError, match="out of range"):
        check_sampling_rule(
            Sloppy(), je.BestArm(), je.Instance(np.eye(3), [1.0, 0.0, 0.0]), runs=40, steps=100
        )


@pytest.mark.slow
def test_the_check_asks_for_arms_at_once(monkeypatch):
    """A live run beside the batches of another seed: chance decides in EB-TCI."""
    instance, real = je.Instance(np.eye(3), [0.5, 0.0, 0.0]), waiting_checks.trace

    def other(*given, **settings):
        return real(*given, **{**settings, "seed": settings["seed"] + 1})

    monkeypatch.setattr(waiting_checks, "trace", other)
    with pytest.raises(ContractError, match="after .* rewards a live run gives arms .* at once"):
        waiting_checks.check_waiting(je.EBTCI(), je.BestArm(), instance, 0.1, 0, None)


def test_the_words_on_errors():
    """Runs that were cut off are said at any share, and how they count."""
    errors = rule_checks._errors
    known = "0 errors in 400 runs at delta = 0.1, {} of them cut off at 3000 samples (rate below "
    assert errors(0, 0, 400, 0.1, 3000) == known.format(0) + "0.017 with 99.9% confidence)"
    assert errors(0, 1, 400, 0.1, 3000) == known.format(1) + (
        "0.017 with 99.9% confidence; runs that were cut off count as no error: "
        "of the 399 that ended below 0.017)"
    )
    most = errors(0, 390, 400, 0.1, 3000)
    assert "of the 10 that ended below 0.499" in most and rule_checks.LITTLE in most
    assert "none ended" in errors(0, 400, 400, 0.1, 3000)
    assert rule_checks.LITTLE not in errors(0, 390, 400, 0.1, 300, stops=False)


def test_a_report_begins_with_its_verdict(monkeypatch):
    """The parts of the check are stubs: what they find is tested elsewhere."""
    told, line = [], "a law that held"
    for name in ("_check_runs", "_check_stress", "_check_one_lane", "check_waiting"):
        monkeypatch.setattr(rule_checks, name, lambda *_: line)

    def progress(done, parts, samples, seconds):
        told.append((done, parts, samples))

    report = check_sampling_rule(je.LUCB(), progress=progress)
    assert told == [(n, 7, 0) for n in range(8)]  # settings, three problems, and three more
    first, tried, said, *laws = str(report).splitlines()
    assert first == f"{je.LUCB()!r}: passed" == f"{report.subject}: {report.verdict}"
    for words in ("Thresholding(level=0.0); unstructured", "Gaussian(std=1.0) rewards alone",
                  "je.Bernoulli()", "400 runs at delta = 0.1, 400 at 0.01, 400 of near ties, "
                  "400 with equal rivals"):  # fmt: skip
        assert words in tried
    assert "not shown: that the rule is delta-correct" in said and len(laws) == 8
    parts = iter([(3, 400, "at delta = 0.1"), (7, 400, "with equal rivals"), (0, 10, "")])
    with monkeypatch.context() as inside:
        inside.setattr(rule_checks, "_check_runs", lambda *given: given[-1].append(next(parts)))
        inside.setattr(rule_checks, "lines_of", lambda parts, _: [str(one()) for _, one in parts])
        cut = check_sampling_rule(je.LUCB()).verdict
    assert cut == "passed, but 7 of 400 runs with equal rivals were cut off"
    linear = str(check_sampling_rule(je.LinGapE())).splitlines()[1]
    assert "linear and unstructured arms" in linear and "Bernoulli" not in linear
    with pytest.raises(je.errors.ArgumentError, match="^progress: "):
        check_sampling_rule(je.LUCB(), progress="bar")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Undocumented(je.Uniform):
    """Leaves its argument undocumented."""

    hidden: int = 1


def test_the_check_reads_docstrings():
    with pytest.raises(ContractError, match="hidden"):
        check_sampling_rule(Undocumented())
