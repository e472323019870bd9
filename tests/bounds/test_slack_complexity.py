"""H* of best arm with slack: the largest over the right answers, and its certificate."""

import contextlib
import io

import numpy as np
import pytest

import jaxelim as je
from jaxelim import cli
from tests.twin import arm_weights, worlds

SLOW = pytest.mark.slow
EPSILON = 0.15
STD = [1.0, 2.0, 0.5, 1.0]
FAMILIES = {
    "bernoulli": je.Bernoulli(), "poisson": je.Poisson(), "exponential": je.Exponential(),
    "gaussian": je.Gaussian(), "by-arm": je.Gaussian(STD),
}  # fmt: skip
MEANS = {
    "bernoulli": [[0.6, 0.55, 0.3, 0.2], [0.95, 1.0, 0.3, 0.9], [0.0, 0.1, 0.05, 0.0],
                  [0.9, 0.9, 0.4, 0.2]],
    "poisson": [[1.2, 1.1, 0.3, 0.2], [0.0, 0.1, 0.05, 0.0], [0.0, 2.0, 0.3, 1.9]],
    "exponential": [[1.2, 1.1, 0.3, 0.2], [0.1, 0.05, 0.2, 0.15]],
    "gaussian": [[1.2, 1.1, 0.3, 0.2], [-0.2, 0.3, 0.2, 0.3]],
    "by-arm": [[1.2, 1.1, 0.3, 0.2], [-0.2, 0.3, 0.2, 0.3], [0.3, 0.0, 0.25, 0.1]],
}  # fmt: skip


@pytest.mark.slow_rows("bernoulli")
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=() if name == "bernoulli" else SLOW) for name in FAMILIES]
)
def test_the_largest_of_the_right_answers(family):
    """Against another method; the mixture bounds H*, information is the twin's."""
    problem = je.BestArm(epsilon=EPSILON)
    batch = je.Instance.unstructured(MEANS[family], FAMILIES[family])
    found = je.complexity(batch, problem, 1e-8)
    name = "gaussian" if family in ("gaussian", "by-arm") else family
    assert found.converged.all() and (found.gap >= 0).all()
    for i, means in enumerate(MEANS[family]):
        known = seen_of(name, means, STD if family == "by-arm" else None)
        best, _ = arm_weights.slack_weights(known)
        value = max(least(known, i, best) for i in known.problem.right(known.means))
        np.testing.assert_allclose(found.value[i], value, rtol=1e-6)
        answer = answer_of(found, i)
        labels, w, q = of(known, answer), found.allocation[i], found.mixture[i]
        values, exists = known.values(labels, w), np.isfinite(found.information[i])
        np.testing.assert_allclose(found.information[i][exists], values, rtol=1e-9)
        assert not q[~exists].any()
        q = q[exists]
        np.testing.assert_allclose(found.value[i], values.min(), rtol=1e-9)
        assert answer in problem.right(known.means)
        slopes = np.array([known.gradient(label, w) for label in labels])
        assert (q @ slopes).max() <= found.value[i] * (1 + found.gap[i]) * (1 + 1e-9)
    last = je.Instance.unstructured(MEANS[family][-2:], FAMILIES[family])
    np.testing.assert_allclose(
        je.complexity(last, problem, 1e-8).value, found.value[-2:], rtol=1e-9
    )
    w = np.full(4, 0.25)
    every = [seen_of(name, m, STD if family == "by-arm" else None) for m in MEANS[family]]
    best = [max(least(one, i, w) for i in one.problem.right(one.means)) for one in every]
    np.testing.assert_allclose(je.bounds.information(batch, problem, w), best, rtol=1e-9)


def answer_of(found, i):
    """The arm whose alternative the pieces are."""
    pieces = found.pieces
    if hasattr(pieces, "first"):
        return int(pieces.first[i])
    return int((pieces.y[i] > 0).sum(0).argmax())


def seen_of(name, means, std=None, epsilon=EPSILON):
    """The twin at a truth."""
    world = worlds.WORLDS[name] if std is None else worlds.Gaussian(std)
    means = np.array(means)
    return worlds.Seen(world, worlds.Problem(("slack", epsilon), len(means)), None, means)


def of(known, arm):
    """The pieces of an answer."""
    return known.problem.pieces(np.arange(known.problem.K) == arm)


def least(known, arm, w):
    """min_p H_p(w) of an answer."""
    return known.values(of(known, arm), w).min()


@pytest.mark.slow
def test_an_answer_that_is_not_the_best_may_have_the_largest_complexity():
    """The best arm is noisy: a precise one within epsilon is cheaper to certify."""
    means, std, epsilon = np.array([0.8, 0.79, 0.78]), np.array([3.0, 1.0, 0.3]), 0.2
    instance = je.Instance.unstructured(means, je.Gaussian(std))
    found = je.complexity(instance, je.BestArm(epsilon=epsilon), 1e-8)
    assert answer_of(found, 0) == 2
    known = seen_of("gaussian", means, std, epsilon)
    w, clear = arm_weights.slack_weights(known)
    value = least(known, 2, np.maximum(w, 1e-12))
    assert clear
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    np.testing.assert_allclose(found.allocation, w, atol=1e-3)
    of_best = arm_weights.piece_weights(known, of(known, 0))
    assert least(known, 0, of_best) < 0.999 * value


def test_bounds_count_the_right_answers():
    """kl((1 - delta)/n, delta)/H*: as the plain form for n = 1, and falling in n."""
    for delta in (0.1, 0.01, 1e-6):
        plain = je.bounds.kl_bound(delta, 0.01)
        bounds = [je.bounds.kl_bound(delta, 0.01, n) for n in (1, 2, 3, 10**7)]
        assert bounds[0] == plain and bounds[0] > bounds[1] > bounds[2] > bounds[3] >= 0
    p, q = 0.45, 0.1
    direct = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(je.bounds.kl_bound(0.1, 0.5, 2), direct / 0.5)


def said(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(list(arguments)) == 0
    return out.getvalue()


@pytest.mark.slow
def test_the_command_line(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"theta": [0.6, 0.5, 0.1], "arms": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}')
    instance = je.load_instance(file)
    for epsilon, right in ((0.05, 1), (0.2, 2)):
        text = said("instances", "describe", str(file), "--problem", f"BestArm({epsilon})")
        found = je.complexity(instance, je.BestArm(epsilon=epsilon), 1e-8)
        assert text.startswith(f"BestArm(epsilon={epsilon}) on {file}: K = 3")
        assert f"H* = {float(found.value):.8g}" in text
        bound = je.bounds.kl_bound(0.01, found.value, right)
        assert f"/H* = {float(bound):.1f}" in text and ("2 right answers" in text) == (right == 2)
    text = said("run", str(file), "--problem", "BestArm(0.2)", "--rule", "lucb", "--runs", "2",
                "--max-samples", "50")  # fmt: skip
    assert text.startswith("LUCB() on ") and "BestArm(epsilon=0.2)" in text
