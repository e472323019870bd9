"""A best arm or none: against definitions, laws and errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.views import Snapshot
from jaxelim.lanes import LaneOps
from tests import twin
from tests.calls import checked

FAMILIES = {
    "bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
    "by-arm": je.Gaussian([1.0] * 4),
}  # fmt: skip
TWINS = {"bernoulli": twin.Bernoulli, "poisson": twin.Poisson, "exponential": twin.Exponential,
         "by-arm": twin.Gaussian}  # fmt: skip
LEVEL = {"bernoulli": 0.55, "poisson": 1.2, "exponential": 1.1, "by-arm": 0.3}


# The evidence of a best arm or none, against the definition.


def infimum(family, piece, n, means, level):
    """The least sum_k n_k d(m_k, lambda_k) over a piece, by a search over one common mean."""
    d = TWINS[family].divergence
    i, k = piece
    if k == "below":  # {mu_i <= level}
        return n[i] * d(means[i], level) if means[i] > level else 0.0
    if i == "none":  # {mu_k >= level}
        return n[k] * d(means[k], level) if means[k] < level else 0.0
    a, b = means[i], means[k]
    if a <= b:
        return 0.0
    cost = lambda u: n[i] * d(a, u) + n[k] * d(b, u)  # noqa: E731
    return minimize_scalar(cost, bounds=(b, a), method="bounded", options={"xatol": 1e-12}).fun


def looked(own, problem, K):
    """A compiled function of counts, means and weights: what the evidence says of the pieces."""
    space = own.space(LaneOps(), jnp.eye(K), ())
    started = own.start(space, problem, (), jnp.ones((K, 1)))

    def look(counts, means, w):
        told = dict(t=jnp.int32(99), counts=counts, means=means, reward_sums=means * counts)
        seen = Snapshot.of(own, problem, space, dataclasses.replace(started, **told))
        at = seen.evidence.weighted(w)
        bent = seen.evidence.with_derivatives().weighted(w).derivatives()
        values, places = seen.evidence.values(), jnp.arange(K + 1, dtype=jnp.int32)
        beta = jnp.median(values)
        refuted = seen.evidence.refuted(beta) == (values > beta)
        slopes = jax.vmap(at.gradient)(places)
        return seen.shape.exists, values, at.values(), slopes, bent.value, bent.gradient, refuted

    return jax.jit(look)


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradients_are_those_of_the_definition(family):
    """At random counts and estimates, some of them without an arm above the reference."""
    rng, K, level, none = np.random.default_rng(5), 4, LEVEL[family], 0
    with scope.engine():
        look = looked(FAMILIES[family], je.BestArm(reference=level), K)
        for n in range(12):
            means = rng.uniform(0.02, level * (0.99 if n % 3 == 0 else 1.7), K)
            counts, w = rng.integers(1, 50, K).astype(float), rng.dirichlet(np.ones(K))
            seen = map(np.asarray, look(counts, means, w))
            exists, values, at, slopes, bent, steep, refuted = seen
            best = int(np.argmax(means))
            some = means[best] >= level
            none += not some
            pieces = [(best, k) if some else ("none", k) for k in range(K)] + [(best, "below")]
            places = [some and k != best or not some for k in range(K)] + [some]
            np.testing.assert_array_equal(exists, places)
            assert refuted.all()
            for p in np.flatnonzero(exists):
                np.testing.assert_allclose(
                    values[p], infimum(family, pieces[p], counts, means, level), rtol=1e-8
                )
                known = infimum(family, pieces[p], w, means, level)
                np.testing.assert_allclose([at[p], bent[p], slopes[p] @ w], known, rtol=1e-8)
                np.testing.assert_allclose(steep[:, p], slopes[p], rtol=1e-8)
    assert 2 < none < 10


# What is right, H*, ties, proofs.


def test_mixtures_cover_the_pieces():
    """P = K: an answer is wrong only if one of K pieces that hold the truth was refuted."""
    given = je.Instance.unstructured([0.9, 0.7, 0.3, 0.2], je.Bernoulli())
    problem = je.BestArm(reference=0.5)
    call = checked(given, problem, je.Uniform(), threshold=je.Mixture())
    assert call.threshold.pieces == problem.wrong_answers(4) == 4


STRENGTHS = np.array(je.Mixture().strengths)


def log_e_of(counts, means, level):
    """log e of {mu_i <= mu_k} for unit Gaussians and a reference, the last: by the definition."""
    K, grown = len(means), 1 + counts / STRENGTHS[:, None]  # [J, K]
    precise, spread = counts / grown * (counts / STRENGTHS[:, None]), np.log(grown) / 2
    found = np.full((K + 1, K + 1), -np.inf)
    for i, k in np.argwhere(~np.eye(K + 1, dtype=bool)):
        pair = [a for a in (i, k) if a < K]
        m = [*means, level]
        if m[i] <= m[k]:
            continue
        weight = 1 / sum(1 / precise[:, a] for a in pair)
        found[i, k] = np.log(
            np.mean(np.exp(weight * (m[i] - m[k]) ** 2 / 2 - sum(spread[:, a] for a in pair)))
        )
    return found


@pytest.mark.slow
def test_p_values_are_those_of_the_definition():
    """Of every look: pairs of arms, and both sides of the reference; with and without an arm."""
    level, none, looks = 0.4, 0, 0
    noises = np.random.default_rng(4).normal(size=(2, 60))
    for means, noise in zip(([1.5, 0.1, 0.3], [-0.2, -0.6, 0.1]), noises, strict=True):
        run = je.LiveRun(3, je.BestArm(reference=level), je.Uniform(), delta=0.1)
        arms, least = np.arange(60) % 3, np.ones((4, 4))
        rewards = np.array(means)[arms] + noise
        for t in range(1, 61):
            run.tell(int(arms[t - 1]), float(rewards[t - 1]))
            if t < 3 or run.stopped:
                continue
            looks += 1
            counts = np.bincount(arms[:t], minlength=3)
            average = np.bincount(arms[:t], rewards[:t]) / counts
            least = np.minimum(least, np.exp(-np.maximum(log_e_of(counts, average, level), 0)))
            found = run.p_values
            np.testing.assert_allclose(found.pairs, least, rtol=1e-8)
            np.testing.assert_allclose(found.together, np.minimum(1, 6 * least), rtol=1e-8)
            public = run._fold.look(run._state)["public"]
            answer = np.append(public, not public.any())
            none += answer[-1]
            worst = least.min(0)[~answer].max()
            np.testing.assert_allclose(found.answer, min(1, 3 * worst), rtol=1e-8)
    assert 0 < none < looks


@pytest.mark.slow
def test_a_live_run_ends_with_no_arm():
    given: dict = dict(rule=je.EBTCI(), family=je.Bernoulli(), delta=0.1)
    run = je.live.LiveRun(3, je.BestArm(reference=0.5), **given)
    while not run.stopped:
        run.tell(run.ask(), 0)
    assert run.answer_arms == () and "The answer: no arm" in str(run.summary())
    np.testing.assert_array_equal(run.evidence.p, run.p_values.pairs[3, :3])
    assert run.p_values.answer <= 0.1
    shown = run.summary()
    assert list(shown["p"]) == run.p_values.arms.tolist()
    assert list(run.evidence.piece) == ["0 < 0.5", "1 < 0.5", "2 < 0.5"]
    best = je.live.LiveRun(3, je.BestArm(reference=0.5), **given)
    while not best.stopped:
        arm = best.ask()
        best.tell(arm, int(arm == 1))
    np.testing.assert_array_equal(best.evidence.p, best.p_values.pairs[1, [0, 2, 3]])
    shown = best.summary()
    assert list(shown["p"]) == best.p_values.arms.tolist()
    assert shown["p"][1] == best.p_values.answer and shown["state"][1] == "answer"
    assert list(best.evidence.piece) == ["1 > 0", "1 > 2", "1 > 0.5"]
