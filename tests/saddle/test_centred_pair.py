"""Pairs kept from sample to sample: certificates by their definition, warm solves, masks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.evidence.half_spaces import HalfSpaceEvidence
from jaxelim.lanes import LaneOps
from jaxelim.rules.parts.allocation import Pair
from jaxelim.saddle.solver import climb

K, D = 10, 4


@functools.partial(jax.jit, static_argnames="optimistic")
def traced(phi, y, gaps, live, bonus, pair, goal, optimistic):
    """The certificate of the pair given; a solve from it; the certificate of the new pair."""
    evidence = HalfSpaceEvidence(phi, y, jnp.zeros(D), gaps, pair.state.w)
    known, extra = jnp.any(pair.pull > 0), bonus if optimistic else None
    before = pair.certificate(LaneOps(), gaps, live, extra)
    solved = climb(evidence, live, bonus, goal, pair.at(gaps), known=known)
    new = Pair.of(solved, gaps, live)
    after = new.certificate(LaneOps(), gaps, live, extra)
    return before, new, solved.gap, solved.looks, after


@jax.jit
def reference(phi, y, gaps, live, bonus):
    pieces = HalfSpaces(y, -jnp.where(live, gaps, 0), live)
    evidence = HalfSpaceEvidence.of(phi, jnp.zeros(D), pieces)
    return climb(evidence, live, bonus, 1e-9, jnp.full(K, 1 / K), most=100).value


def defined(phi, y, gaps, live, bonus, w):
    """min_p H_p(w) + bonus . w, and dH_p/dw for all p: [P, K]."""
    inverse = np.linalg.inv((phi.T * w) @ phi)
    norm = np.einsum("pd,de,pe->p", y, inverse, y)
    norm = np.where(norm > 0, norm, 1)
    slopes = (gaps / norm)[:, None] ** 2 * (y @ inverse @ phi.T) ** 2 / 2
    return np.min((gaps**2 / (2 * norm))[live]) + bonus @ w, slopes


@pytest.mark.parametrize("optimistic", [False, True])
def test_certificates_and_solves(optimistic):
    """Six walks of theta, each of six problems: every gap holds by its definition.

    Pieces are eliminated in the middle of a walk. The optimum is that of a solve
    from the centre in other coordinates.
    """
    rng, warm, cold = np.random.default_rng(int(optimistic)), [], []
    for _ in range(6):
        arms, theta = rng.standard_normal((K, D)), rng.standard_normal(D)
        phi, s, vt = np.linalg.svd(arms, full_matrices=False)
        best = int(np.argmax(arms @ theta))
        y, live = (arms[best] - arms) @ (vt.T / s), np.arange(K) != best
        bonus = 0.05 * rng.random(K) if optimistic else np.zeros(K)
        with scope.engine():
            pair = jax.tree.map(np.asarray, Pair.none(jnp.ones(K), jnp.ones(K)))
        for i in range(6):
            moved = theta * (1 + 0.003 * rng.standard_normal(D)) if i else theta
            gaps = (arms[best] - arms) @ moved
            if np.any(gaps[live] <= 0):
                continue
            if i == 3:
                live = live & (rng.random(K) < 0.7)
            if not live.any():
                break
            gaps = np.where(live, gaps, 1)
            with scope.engine():
                given = [jnp.asarray(x) for x in (phi, y, gaps, live, bonus)]
                found = traced(*given, pair, jnp.float64(1e-7), optimistic)
                before, new, gap, looks, again = jax.tree.map(np.asarray, found)
                top = float(reference(*given))
            if np.isfinite(before):  # the certificate, by the definition, at the old weights
                value, slopes = defined(phi, y, gaps, live, bonus, pair.state.w)
                q = np.where(live, pair.pull * (pair.norm / gaps) ** 2, 0)
                bound = np.max(q @ slopes / q.sum() + bonus)
                if i == 3:  # the slopes of eliminated pieces stay in the bound
                    assert before >= bound / value - 1 - 1e-8
                else:
                    np.testing.assert_allclose(before, bound / value - 1, rtol=1e-6, atol=1e-8)
                assert value * (1 + before) >= top * (1 - 1e-9)
            value, _ = defined(phi, y, gaps, live, bonus, new.state.w)
            assert gap <= 1e-7 and abs(again - gap) < 1e-12
            assert -2e-9 < top / value - 1 < 1e-7 + 2e-9
            assert abs(new.state.w.sum() - 1) < 1e-12 and np.all(new.state.w > 0)
            (warm if np.isfinite(before) else cold).append(int(looks))
            pair = new
    assert len(warm) > 15 and len(cold) == 6
    assert np.median(warm) < 0.7 * np.median(cold)
