"""`ChernoffRacing` under `Mixture`: its rounds against plain NumPy, for every family."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

import jaxelim as je

DELTA, STRENGTHS = 0.1, np.array(je.Mixture().strengths)
STD = [0.7, 1.0, 1.5, 1.2]
GRID = 400
"""Common means that a search tries at once."""


def gaussian(n, m, _, u):
    return n * n / (n + STRENGTHS) * (m - u) ** 2 / 2 - np.log1p(n / STRENGTHS) / 2


def bernoulli(n, m, _, u):
    s, a, b = n * m, STRENGTHS * u, STRENGTHS * (1 - u)
    beta = lambda x, y: gammaln(x) + gammaln(y) - gammaln(x + y)  # noqa: E731
    return beta(s + a, n - s + b) - beta(a, b) - s * np.log(u) - (n - s) * np.log1p(-u)


def poisson(n, m, _, u):
    s, a = n * m, STRENGTHS * u
    value = gammaln(s + a) - gammaln(a) + a * np.log(STRENGTHS)
    return value - (s + a) * np.log(n + STRENGTHS) - s * np.log(u) + n * u


def exponential(n, m, _, u):
    s, a = n * m, STRENGTHS + 1
    value = gammaln(a + n) - gammaln(a) + a * np.log(STRENGTHS * u)
    return value - (a + n) * np.log(STRENGTHS * u + s) + n * np.log(u) + s / u


def student(n, m, v, u):
    z = (m - u) ** 2 / v
    value = n * (np.log1p(z) - np.log1p(z * STRENGTHS / (n + STRENGTHS)))
    return (value - np.log1p(n / STRENGTHS)) / 2


def mean_exp(values):
    """log mean_j exp(values_j) along the last axis."""
    most = values.max(-1, keepdims=True)
    return most[..., 0] + np.log(np.exp(values - most).mean(-1))


def least(f, low, high):
    """The least of f over [low, high], by grids around the least node of a grid."""
    for _ in range(12):
        x = np.linspace(low, high, GRID)
        value = f(x)
        at = int(np.nanargmin(value))
        low, high = x[max(at - 1, 0)], x[min(at + 1, GRID - 1)]
    return value[at]


def log_e(log_arm, n, a, b, ends):
    """log e of {mu_a <= mu_b}; arms (mean, variance) with n pulls each, ends of the range."""
    if a[0] <= b[0]:
        return -math.inf
    if log_arm is student:
        if a[1] == 0 or b[1] == 0:
            return -math.inf
        both = lambda u: sum(mean_exp(student(n, *one, u[:, None])) for one in (a, b))  # noqa: E731
        y = least(both, b[0], a[0])
        return y - math.log1p(max(y, 0))
    total = lambda u: mean_exp(sum(log_arm(n, *one, u[:, None]) for one in (a, b)))  # noqa: E731
    reach = 3 * (a[0] - b[0])  # the least point need not lie between the estimates
    low, high = max(b[0] - reach, ends[0] + 1e-12), min(a[0] + reach, ends[1] - 1e-12)
    return least(total, low, high)


def by_arm(n, a, b, c_a, c_b):
    """The same in closed form, for Gaussian arms of these variances; the infimum inside the sum."""
    if a[0] <= b[0]:
        return -math.inf
    precision = n * n / (n + STRENGTHS)
    both = precision / c_a * (precision / c_b) / (precision / c_a + precision / c_b)
    return float(mean_exp(both * (a[0] - b[0]) ** 2 / 2 - np.log1p(n / STRENGTHS)))


INFINITE = (-math.inf, math.inf)
CASES = {
    "gaussian": (je.Gaussian(), [1.5, 0.4, 0.0, -0.6], None, INFINITE),
    "by arm": (je.Gaussian(std=STD), [2.0, 0.4, 0.0, -0.6], None, INFINITE),
    "bernoulli": (je.Bernoulli(), [0.9, 0.4, 0.3, 0.0], bernoulli, (0, 1)),
    "poisson": (je.Poisson(), [2.0, 1.2, 0.8, 0.1], poisson, (0, math.inf)),
    "exponential": (je.Exponential(), [3.0, 1.4, 0.8, 0.3], exponential, (0, math.inf)),
    "unknown variance": (
        je.GaussianUnknownVariance(), [2.0, 0.4, 0.0, -0.6], student, INFINITE,
    ),
}  # fmt: skip


def rounds(name, arms, rewards, k, initial):
    """The arms that a run must pull and its answer, from the rewards of the arms it pulled."""
    family, _, log_arm, ends = CASES[name]
    costs = np.square(family.std) if name == "by arm" else np.ones(k)
    left, pulled = list(range(k)), list(range(k)) * initial
    while len(left) > 1 and len(pulled) <= len(arms):
        own = [rewards[: len(pulled)][arms[: len(pulled)] == arm] for arm in range(k)]
        of = lambda arm, own=own: (own[arm].mean(), own[arm].var())  # noqa: E731
        best, worst = max(left, key=lambda x: of(x)[0]), min(left, key=lambda x: of(x)[0])
        n = len(own[best])
        if log_arm is None:
            value = by_arm(n, of(best), of(worst), costs[best], costs[worst])
        else:
            value = log_e(log_arm, n, of(best), of(worst), ends)
        assert abs(value - math.log((k - 1) / DELTA)) > 1e-6
        if value > math.log((k - 1) / DELTA):
            left.remove(worst)
        if len(left) > 1:
            pulled += left
    return pulled, left


COMMON = dict(delta=DELTA, stopping=je.Native(), threshold=je.Mixture(), max_samples=4000)


def cases(quick):
    """The families; those outside `quick` are for the slow suite."""
    return [pytest.param(one, marks=() if one in quick else pytest.mark.slow) for one in CASES]


def call(name):
    """Instance, problem and rule of a case."""
    family, means = CASES[name][:2]
    return je.Instance.unstructured(means, family), je.BestArm(), je.ChernoffRacing()


@pytest.mark.parametrize("name", cases(("gaussian", "bernoulli", "unknown variance")))
def test_rounds_are_those_of_the_definition(name):
    """Every pull of three runs."""
    for run in range(3):
        traced, k = je.trace(*call(name), run=run, **COMMON), len(CASES[name][1])
        assert traced.stopped
        initial = 2 if name == "unknown variance" else 1
        pulled, left = rounds(name, traced.arms, traced.rewards, k, initial)
        np.testing.assert_array_equal(traced.arms, pulled)
        np.testing.assert_array_equal(np.flatnonzero(traced.answer), left)


@pytest.mark.parametrize("name", cases(("gaussian",))[:3])
def test_runs_do_not_depend_on_the_layout(name):
    layouts = (
        je.Engine(devices=1, lanes=16), je.Engine(devices=1, lanes=16, vmapped=True),
        *([] if name == "gaussian" else [je.Engine(devices=1, lanes=272)]),
    )  # fmt: skip
    known, *others = (je.simulate(*call(name), runs=20, engine=one, **COMMON) for one in layouts)
    assert known.proven is True and known.stopped.all()
    traced = [je.trace(*call(name), run=run, **COMMON).samples for run in range(3)]
    np.testing.assert_array_equal(known.samples[0, 0, :3], traced)
    for other in others:
        for field in ("samples", "answer", "pulls", "stopped"):
            np.testing.assert_array_equal(getattr(known, field), getattr(other, field), field)


def test_several_deltas_have_runs_of_their_own():
    instance, common = je.Instance.unstructured([0.9, 0.4, 0.1]), dict(threshold=je.Mixture())
    given = instance, je.BestArm(), je.ChernoffRacing()
    both = je.simulate(*given, delta=(0.1, 0.01), runs=8, stopping=je.Native(), **common)
    for d, delta in enumerate((0.1, 0.01)):
        one = je.simulate(*given, delta=delta, runs=8, stopping=je.Native(), **common)
        np.testing.assert_array_equal(one.samples[:, 0], both.samples[:, d])
    assert (both.samples[0, 0] < both.samples[0, 1]).all()


def test_intervals_read_levels_of_arms():
    """`ChernoffRacing("interval")` drops the worst where bounds at `arm_levels` part."""
    means, threshold = [1.0, 0.4, -0.2], je.Mixture(pieces=2)
    run = je.trace(
        je.Instance.unstructured(means), je.BestArm(), je.ChernoffRacing("interval"),
        delta=DELTA, stopping=je.Native(), threshold=je.Mixture(), max_samples=4000,
    )  # fmt: skip
    left, at = [0, 1, 2], 3
    assert run.stopped
    while len(left) > 1:
        n = np.bincount(run.arms[:at], minlength=3)
        m = np.bincount(run.arms[:at], run.rewards[:at], 3) / n
        radius = np.sqrt(2 * np.asarray(threshold.arm_levels(n.astype(float), DELTA)) / n)
        best, worst = max(left, key=m.__getitem__), min(left, key=m.__getitem__)
        if m[best] - radius[best] > m[worst] + radius[worst]:
            left.remove(worst)
        if len(left) > 1:
            np.testing.assert_array_equal(run.arms[at : at + len(left)], left)
            at += len(left)
    assert at == run.samples
    np.testing.assert_array_equal(np.flatnonzero(run.answer), left)


def test_answers_are_seldom_wrong():
    """Far fewer than delta of the runs: two arms tie behind the best one."""
    result = je.simulate(
        je.Instance.unstructured([0.5, 0.1, 0.1]), je.BestArm(), je.ChernoffRacing(), delta=0.2,
        runs=600, stopping=je.Native(), threshold=je.Mixture(), max_samples=20_000,
    )  # fmt: skip
    assert result.stopped.all()
    assert (~result.correct).mean() < 0.2
