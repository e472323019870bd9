"""float32: recomputed statistics, compensated sums, and agreement with float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.evidence.designs import ArmDesign, DiagonalDesign, LinearContext, SquareDesign
from jaxelim.families import gaussian
from jaxelim.families.linear_statistics import LinearStatistics, recomputed
from jaxelim.lanes import LaneOps

RNG = np.random.default_rng(32)
ARMS = RNG.normal(size=(6, 3))
SELECTIVE = je.SelectiveElimination()


def parting(single: je.Trace, double: je.Trace) -> int | None:
    """The first pull (1-based) at which two traces differ; None if they agree so far."""
    common = min(len(single.arms), len(double.arms))
    apart = np.flatnonzero(single.arms[:common] != double.arms[:common])
    return int(apart[0]) + 1 if apart.size else None


def z_score(one: np.ndarray, other: np.ndarray) -> float:
    """Difference of two means [run] in its standard error, for independent samples."""
    error = np.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
    return float((one.mean() - other.mean()) / error)


COMMON = dict(stopping=SELECTIVE, delta=0.05, runs=24, max_samples=3000)
INSTANCE = je.instances.linear_d10(0, K=12)


def spoilt(form: str) -> tuple[np.ndarray, LinearStatistics]:
    """Features and float32 statistics whose counts and sums alone are right."""
    phi = np.eye(6) if form == "diagonal" else ARMS
    k, d = phi.shape
    g, wrong = jnp.full(k, 9.0, jnp.float32), lambda *shape: jnp.full(shape, 9.0, jnp.float32)
    design = {
        "arms": ArmDesign(g, wrong(d, k)),
        "square": SquareDesign(g, wrong(d, d)),
        "diagonal": DiagonalDesign(g),
    }[form]
    counts = jnp.asarray(RNG.integers(1, 10_000, k), jnp.float32)
    sums = jnp.asarray(RNG.normal(size=k) * 1000, jnp.float32)
    lost = jnp.asarray(RNG.normal(size=k) * 1e-5, jnp.float32)
    return phi, LinearStatistics(
        t=jnp.int32(k), counts=counts, means=wrong(k), reward_sums=sums, design=design,
        theta_hat=wrong(d), lost=lost, products=None,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["arms", "square", "diagonal"])
def test_recomputed_statistics_follow_the_definition(form):
    with scope.engine():
        phi, stats = spoilt(form)
        new = recomputed(jnp.asarray(phi, jnp.float32), stats, ridge=0.5)
    exact = phi.astype(np.float32).astype(float)
    counts, sums = (np.asarray(x, float) for x in (stats.counts, stats.reward_sums))
    sums = sums - np.asarray(stats.lost, float)
    v = 0.5 * np.eye(phi.shape[1]) + exact.T @ (counts[:, None] * exact)
    theta = np.linalg.solve(v, exact.T @ sums)
    inverse = np.linalg.inv(v)
    for ours, truth in (
        (new.theta_hat, theta),
        (new.means, exact @ theta),
        (new.design.g, np.einsum("kd,de,ke->k", exact, inverse, exact)),
    ):
        np.testing.assert_allclose(
            np.asarray(ours), truth, rtol=3e-7, atol=1e-9 * np.abs(truth).max()
        )
    if form == "arms":
        np.testing.assert_allclose(
            np.asarray(new.design.w), inverse @ exact.T, rtol=1e-6, atol=1e-9
        )
    if form == "square":
        np.testing.assert_allclose(np.asarray(new.design.v_inv), inverse, rtol=1e-6, atol=1e-9)
    assert {x.dtype for x in jax.tree.leaves((new.means, new.design, new.theta_hat))} == {
        jnp.dtype(jnp.float32)
    }


def test_sums_of_rewards_lose_nothing():
    """100,000 rewards near 1: only the compensated float32 sum is exact to 1e-3."""
    rewards = (1 + RNG.normal(size=100_000) / 10).astype(np.float32)
    with scope.engine():
        space = LinearContext(LaneOps(None), jnp.eye(2, dtype=jnp.float32))
        zero = jnp.zeros(2, jnp.float32)
        stats = LinearStatistics(
            t=jnp.int32(2), counts=zero + 1, means=zero, reward_sums=zero,
            design=DiagonalDesign(zero + 1), theta_hat=None, lost=zero, products=None,
        )  # fmt: skip
        family = gaussian.LinearGaussian()

        def add(stats, x):
            seen = je.Snapshot.of(family, je.BestArm(), space, stats)
            return family.update(seen, jnp.int32(1), x, jnp.bool_(True)), None

        stats = jax.jit(lambda stats, xs: jax.lax.scan(add, stats, xs)[0])(
            stats, jnp.asarray(rewards)
        )
    truth, plain = rewards.astype(float).sum(), float(np.add.accumulate(rewards)[-1])
    kept = float(stats.reward_sums[1]) - float(stats.lost[1])
    assert abs(kept - truth) < 1e-3 < abs(plain - truth)
    assert float(stats.reward_sums[0]) == 0 == float(stats.lost[0])


@pytest.mark.slow
def test_runs_are_refreshed_in_float32_alone(monkeypatch):
    seen, real = [], gaussian.recomputed
    monkeypatch.setattr(
        gaussian, "recomputed", lambda *given, **named: (seen.append(1), real(*given, **named))[1]
    )
    for precision, often in (("float64", 0), ("float32", 1)):
        engine.program.cache_clear()
        settings = {**COMMON, "runs": 2, "max_samples": 100}
        je.simulate(
            INSTANCE,
            je.BestArm(),
            je.LinGapE(),
            engine=je.Engine(precision=precision, devices=1),
            **settings,
        )
        assert (len(seen) > 0) == often, precision
    engine.program.cache_clear()


@pytest.mark.slow_rows("one speed")
@pytest.mark.parametrize(
    "rule, other",
    [
        pytest.param(je.LinGapE(), {"lanes": 8, "chunk": 100, "devices": 1}, id="one speed"),
        pytest.param(je.LazyTaS(), {"chunk": 100}, id="two speeds", marks=pytest.mark.slow),
    ],
)
def test_layout_does_not_matter(rule, other):
    """A run is refreshed at its own sample counts, on any layout."""
    found = [
        je.simulate(
            INSTANCE, je.BestArm(), rule, engine=je.Engine(precision="float32", **layout), **COMMON
        )
        for layout in ({}, other)
    ]
    assert found[0].samples.max() > 2 * gaussian.REFRESH
    for name in ("samples", "stopped", "answer", "pulls", "tests_stopping", "elimination_times"):
        np.testing.assert_array_equal(
            getattr(found[0], name), getattr(found[1], name), err_msg=name
        )


@pytest.mark.slow
def test_a_trace_differs_late_if_at_all():
    """On the same noise: rounding rarely decides a pull, and the answer is the same."""
    both = [
        je.trace(INSTANCE, je.BestArm(), je.LinGapE(), stopping=SELECTIVE, delta=0.05,
                 engine=je.Engine(lanes=1, devices=1, precision=precision))
        for precision in ("float32", "float64")
    ]  # fmt: skip
    first = parting(*both)
    assert first is None or first > 200
    assert both[0].stopped and both[1].stopped and np.array_equal(both[0].answer, both[1].answer)


def test_partings_and_z_scores():
    class Trace:
        def __init__(self, arms):
            self.arms = np.array(arms)

    assert parting(Trace([0, 1, 2]), Trace([0, 1, 2, 2])) is None
    assert parting(Trace([0, 1, 2]), Trace([0, 2, 2])) == 2
    x = np.arange(100.0)
    assert z_score(x, x) == 0 and z_score(x + 3, x) == pytest.approx(
        3 / np.sqrt(2 * x.var(ddof=1) / 100)
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", [je.LinGapE(), je.LinGame()], ids=repr)
def test_mean_stopping_times_agree(rule):
    """n = 3000 runs in each precision on the same noise.

    Independent samples would give |z| > 5 by luck with probability 6e-7. Such a test
    detects a shift by 5 sqrt(2/3000) = 0.13 standard deviations of tau half the time.
    The common noise lowers both.
    """
    settings = {**COMMON, "runs": 3000, "max_samples": 200_000}
    single, double = (
        je.simulate(INSTANCE, je.BestArm(), rule, engine=je.Engine(precision=precision), **settings)
        for precision in ("float32", "float64")
    )
    assert single.stopped.all() and double.stopped.all()
    assert abs(z_score(single.samples[0, 0].astype(float), double.samples[0, 0].astype(float))) < 5
