"""H*, T* and w*: values and certificates beside the twin, invariances, the command line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import bounds, cli, scope
from jaxelim.bounds import complexity
from jaxelim.bounds.pieces import each, pieces_of
from jaxelim.instances import load_instance
from jaxelim.instances.instance import Instance
from jaxelim.problems import BestArm, HalfSpaces, Thresholding, TopM
from tests import twin
from tests.bounds.cases import place
from tests.calls import rows
from tests.places import PROBLEMS

SLOW = pytest.mark.slow
unstructured = Instance.unstructured
CASES = [
    ("linear", "topm"), ("random by-arm, priced", "topm"), ("linear", "reference"),
    ("unstructured", "items"), ("K >> d", "bai"), ("logistic", "osi"),
    ("random poisson", "slack"), ("random exponential", "reference"),
    ("random bernoulli", "reference zone"), ("priced linear", "osi"),
]  # fmt: skip
"""Each place, family and problem once, and what has closed forms of its own."""


@pytest.mark.parametrize("case", rows(CASES, CASES[:2], ", ".join))
def test_h_star_and_its_certificate(case):
    """Information and slopes at w* are the twin's: so H* is at most (1 + gap) times the value.

    Linear and quadratic programs reach it. Information at other weights is the twin's too, and
    an instance alone has what it has in the batch.
    """
    at = place(case[0])
    problem, spec = PROBLEMS[case[1]](at)
    found = complexity(at.instance, problem, gap=1e-9)
    assert found.converged.all() and (found.gap <= 1e-9).all()
    even = np.full(at.instance.K, 1 / at.instance.K)
    known = bounds.information(at.instance, problem, even)
    alone = complexity(at.instance[-1:], problem, gap=1e-9)
    np.testing.assert_allclose(alone.value, found.value[-1:], rtol=2e-10)
    for i, world in enumerate(at.worlds):
        seen, best = truth_of(world, spec), answer_of(found, i)
        labels = seen.pieces.of(np.arange(world.K) == best) if seen.pieces.slack else (
            seen.pieces.of(seen.answer, seen.candidates)
        )  # fmt: skip
        # Worlds of runs have costs of mean 1.
        unit = 1 if world.prices is None else np.mean(world.prices / at.instance.costs)
        w, q, level = found.allocation[i], found.mixture[i], found.information[i] / unit
        exists = np.isfinite(level)
        assert w.min() >= 0 and abs(w.sum() - 1) < 1e-9
        assert q.min() >= 0 and abs(q.sum() - 1) < 1e-9 and not q[~exists].any()
        np.testing.assert_allclose(level[exists], seen.values(labels, w), rtol=1e-9)
        np.testing.assert_allclose(level[exists].min(), found.value[i] / unit, rtol=1e-9)
        upper = (q[exists] @ seen.gradients(labels, w)).max()
        assert upper <= found.value[i] / unit * (1 + found.gap[i]) * (1 + 1e-8)
        slack = seen.pieces.slack
        other = twin.slack_weights(seen)[0] if slack else twin.piece_weights(seen, labels)
        np.testing.assert_allclose(largest(seen, other), found.value[i] / unit, rtol=1e-6)
        np.testing.assert_allclose(known[i] / unit, largest(seen, even), rtol=1e-12)
        shares = seen.shares(w)
        np.testing.assert_allclose(found.pulls[i], shares / shares.sum())


def truth_of(world, spec):
    return world.truth(world.pieces(spec))


def answer_of(found, i):
    """The arm whose alternative the pieces are, where several answers are right."""
    pieces = found.pieces
    if hasattr(pieces, "y"):
        better = (pieces.y[i] > 0).sum(0)
        return int(better.argmax()) if better.any() else len(better)  # no arm beats a reference
    return None if pieces.first is None else int(np.ravel(pieces.first[i])[0])


def largest(seen, w):
    """The largest over the right answers of the least H_p(w)."""
    answers = seen.pieces.right(seen.means) if seen.pieces.slack else [seen.answer]
    w = np.maximum(w, 1e-12)
    return max(seen.values(seen.pieces.of(answer), w).min() for answer in answers)


def test_half_spaces_of_signs():
    """The normals are the arms themselves, towards the answer."""
    arms, theta = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]]), np.array([1.0, -0.5])
    pieces = complexity(Instance(arms, theta), Thresholding(0.3)).pieces
    np.testing.assert_array_equal(pieces.y[0], [[2, 0], [1, 1], [0, -3]])
    np.testing.assert_array_equal(pieces.c[0], [0.3, 0.3, -0.3])


# H* of the shipped instances, from brackets of linear programs to 1e-9.
SHIPPED = [
    ("linear-d10", BestArm(), ("bai",), 3.1058326695e-3),
    ("unstructured-k40", BestArm(), ("bai",), 9.6485123116e-4),
    ("linear-d20", TopM(5), ("topm", 5), 2.7054128950e-4),
]


@pytest.mark.parametrize("name, problem, spec, value", [
    *SHIPPED[:2], *(pytest.param(*one, marks=SLOW) for one in SHIPPED[2:])
], ids=str)  # fmt: skip
def test_the_instances_of_the_paper(name, problem, spec, value):
    one = load_instance(name)
    found = complexity(one, problem, gap=1e-10)
    assert found.converged and found.gap <= 1e-10
    np.testing.assert_allclose(found.value, value, rtol=1e-8)
    certified(found.allocation, found.mixture, one.arms, one.theta, spec, 2e-10)


def certified(w, q, arms, theta, spec, gap):
    """The certificate, recomputed from weights and mixture alone."""
    seen = truth_of(twin.Linear(arms, theta), spec)
    labels = seen.pieces.of(seen.answer, seen.means)
    least, slopes = seen.values(labels, w).min(), seen.gradients(labels, w)
    assert np.max(q @ slopes) <= least * (1 + gap)


GK16 = (
    ([0.5, 0.45, 0.43, 0.4], 989.7921, (0.416524, 0.390264, 0.136223, 0.056989)),
    ([0.3, 0.21, 0.2, 0.19, 0.18], 326.6421, (0.335885, 0.251499, 0.176632, 0.132417, 0.103567)),
)


@pytest.mark.parametrize(("means", "time", "weights"), GK16)
def test_the_instances_of_garivier_and_kaufmann(means, time, weights):
    found = complexity(unstructured(means, je.Bernoulli()), BestArm(), 1e-10)
    assert abs(float(found.time) - time) < 6e-5
    assert np.abs(found.allocation - weights).max() < 1e-6
    assert found.gap < 1e-9 and found.converged
    assert found.value.dtype == np.float64


def small(count, seed=0, K=6, d=3):
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((count, K, d))
    return Instance(arms, rng.standard_normal((count, d)))


@SLOW
def test_a_thousand_small_instances_all_converge():
    # Newton steps with a second-order correction cycle on some of these.
    for problem in (TopM(2), Thresholding(0.1)):
        assert complexity(small(1000, seed=5), problem, gap=1e-10).converged.all()


def test_two_arms_have_a_closed_form_and_a_singular_design():
    # two arms in R^3: V_w has rank 2
    instance = Instance([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], [1.0, 0.2, 5.0])
    found = complexity(instance, BestArm(), gap=1e-10)
    assert found.value == pytest.approx(0.6**2 / 8, rel=1e-9)


@SLOW
def test_optimum_on_a_singular_face_stays_finite():
    # One piece along e_1: the first arm alone is optimal, so V is singular at w*.
    positive = HalfSpaces(lambda theta: jnp.zeros((), jnp.int32), [[[1.0, 0.0]]], [[0.0]])
    instance = Instance([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.5, 0.3])
    found = complexity(instance, positive, gap=1e-9)
    assert found.converged and found.value == pytest.approx(0.5**2 * 4 / 2, rel=1e-8)
    np.testing.assert_allclose(found.allocation, [1, 0, 0], atol=1e-7)


def test_scaling_and_other_coordinates():
    batch = small(3, seed=2)
    noisy = Instance(batch.arms, batch.theta, noise_std=3.0)
    rotated = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    mixed = rotated @ np.diag([1.0, 10.0, 0.1])
    moved = Instance(batch.arms @ mixed, batch.theta @ np.linalg.inv(mixed).T)
    found, other, same = (complexity(x, TopM(2), gap=1e-10).value for x in (batch, noisy, moved))
    np.testing.assert_allclose(other * 9, found, rtol=1e-9)
    np.testing.assert_allclose(same, found, rtol=1e-8)


def test_the_solve_is_in_float64_and_compiled_once_per_shape():
    from jaxelim.bounds.optimal import _solved

    flag = jax.config.jax_enable_x64
    assert complexity(small(3, seed=6), TopM(2)).value.dtype == np.float64
    assert jax.config.jax_enable_x64 == flag
    before = _solved._cache_size()
    complexity(small(11, seed=7), TopM(2), gap=1e-9)
    assert _solved._cache_size() == before


@pytest.mark.parametrize(("centre", "size"), [(1e-9, 1e-10), (0.5, 1e-10), (1 - 1e-6, 1e-6)])
def test_near_ties_approach_gaussians(centre, size):
    """Gaps from 1e-3 to 1e-10 of the distance from an end: T* of Gaussians of variances V(m)."""
    shape = np.array([0, 1, 1.5, 4.0, 4.5])
    size = np.array([1e-3, np.sqrt(1e-3 * size), size])
    means = centre - size[:, None] * min(centre, 1 - centre) * shape
    found = complexity(unstructured(means, je.Bernoulli()), BestArm(), 1e-9)
    assert found.converged.all() and found.gap.max() <= 1e-9
    for m, value, relative in zip(means, found.value, size, strict=True):
        gaussian = unstructured(m, je.Gaussian(np.sqrt(m * (1 - m)).tolist()))
        other = complexity(gaussian, BestArm(), 1e-9).value
        assert abs(value / other - 1) < 20 * relative + 3e-9


@SLOW
def test_an_answer_that_is_not_the_best_may_have_the_largest_complexity():
    """The best arm is noisy: a precise one within epsilon is cheaper to certify."""
    means, std, epsilon = np.array([0.8, 0.79, 0.78]), np.array([3.0, 1.0, 0.3]), 0.2
    instance = je.Instance.unstructured(means, je.Gaussian(std))
    found = je.complexity(instance, je.BestArm(epsilon=epsilon), 1e-8)
    assert answer_of(found, 0) == 2
    known = truth_of(twin.Gaussian(means, std), ("slack", epsilon))
    w, clear = twin.slack_weights(known)
    value = largest(known, w)
    assert clear
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    np.testing.assert_allclose(found.allocation, w, atol=1e-3)
    of_best = known.pieces.of(np.arange(3) == 0)
    assert known.values(of_best, twin.piece_weights(known, of_best)).min() < 0.999 * value


def test_equal_costs_are_none():
    means, family = np.linspace(0.1, 0.9, 4), je.Bernoulli()
    plain = complexity(unstructured(means, family), BestArm(), gap=1e-10)
    instance = unstructured(means, family, costs=[1.0] * 4)
    equal = complexity(instance, BestArm(), gap=1e-10)
    np.testing.assert_allclose(equal.value, plain.value, rtol=1e-10)
    np.testing.assert_allclose(equal.allocation, plain.allocation, atol=1e-8)
    twice = complexity(unstructured(means, family, costs=[2.0] * 4), BestArm(), 1e-10)
    np.testing.assert_allclose(twice.time, 2 * plain.time, rtol=1e-8)
    assert equal.unit == "unit of cost" and plain.unit == "sample"
    np.testing.assert_array_equal(plain.pulls, plain.allocation)
    assert instance.replace(costs=None) == unstructured(means, family) != instance


@SLOW
def test_large_and_nearly_tied_instances_are_certified():
    """In every other instance the best gap is 1e-4."""
    K, d, count = 200, 50, 40
    rng = np.random.default_rng(K + count)
    arms, theta = rng.standard_normal((count, K, d)) / d**0.5, rng.standard_normal((count, d))
    order = np.argsort((arms @ theta[..., None])[..., 0], 1)
    for i in range(0, count, 2):
        toward, across = theta[i] / (theta[i] @ theta[i]), rng.standard_normal(d)
        across -= (across @ theta[i]) * toward  # moving along it changes no mean
        beside = 0.3 * across / np.linalg.norm(across) - 1e-4 * toward
        arms[i, order[i, -2]] = arms[i, order[i, -1]] + beside
    found = complexity(Instance(arms, theta), BestArm(), gap=1e-8)
    assert found.converged.all() and (found.gap <= 1e-8).all()
    for i in range(0, count, 7):  # the certificate, recomputed from the fields alone
        certified(found.allocation[i], found.mixture[i], arms[i], theta[i], ("bai",), 2e-8)


# Logistic rewards.

PHI, THETA = np.random.default_rng(1).standard_normal((5, 3)), np.array([1.8, -0.9, 1.0])


@jax.jit
def bent(truth, weights):
    evidence = truth.evidence().weighted(weights)
    at = evidence.derivatives()
    return at.value, at.gradient, at.curvature(at.value), evidence.values()


def test_derivatives_in_the_weights_of_logistic_rewards():
    """Values and slopes are the twin's, the curvature that of differences of slopes."""
    instance = Instance(PHI, THETA, family=je.Logistic())
    weights = np.array([0.3, 0.05, 0.25, 0.3, 0.1])
    with scope.engine():
        truth = next(each(instance, pieces_of(instance, BestArm())[0]))
        value, slopes, curvature, plain = map(np.asarray, bent(truth, weights))
        steps = 1e-5 * np.eye(5)
        moved = [(np.asarray(bent(truth, weights + s)[1]) - np.asarray(bent(truth, weights - s)[1]))
                 @ value / 2e-5 for s in steps]  # fmt: skip
    np.testing.assert_allclose(plain, value, rtol=1e-11)
    seen = truth_of(twin.Logistic(PHI, THETA), ("bai",))
    labels = seen.pieces.of(seen.answer, seen.candidates)
    np.testing.assert_allclose(value, seen.values(labels, weights), rtol=1e-10)
    np.testing.assert_allclose(slopes.T, seen.gradients(labels, weights), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(curvature, -np.array(moved), rtol=1e-4, atol=1e-6)


@SLOW
def test_logistic_means_items_and_features_of_lower_rank():
    """Independent arms by means; arms in a plane; items; ties by their means."""
    basis = unstructured([0.8, 0.6, 0.5], je.Logistic())
    bernoulli = unstructured([0.8, 0.6, 0.5], je.Bernoulli())
    ours, exact = (complexity(x, BestArm(), 1e-9) for x in (basis, bernoulli))
    np.testing.assert_allclose(ours.value, exact.value, rtol=1e-8)
    np.testing.assert_allclose(ours.allocation, exact.allocation, atol=1e-4)
    plain = Instance(PHI, THETA, family=je.Logistic())
    plane = np.concatenate([PHI, PHI @ np.array([[0.3], [1.0], [0.2]])], 1)
    flat = Instance(plane, [*THETA, 0.0], family=je.Logistic())
    one, flat, items = (complexity(x, problem, 1e-9) for x, problem in (
        (plain, BestArm()), (flat, BestArm()), (plain, BestArm(items=PHI))
    ))  # fmt: skip
    np.testing.assert_allclose([flat.value, items.value], [one.value] * 2, rtol=1e-8)
    blind = [0.5, 0.5, 0.0, 0.0, 0.0]  # two arms do not tell the best from others in R^3
    assert bounds.information(plain, BestArm(), blind) == 0
    tied = Instance(np.eye(2), [0.5, 0.5], family=je.Logistic())
    with pytest.raises(je.errors.ArgumentError, match="0.622459"):
        complexity(tied, BestArm())


# The command line.


def test_the_command_line_and_its_figure(tmp_path, capsys):
    path, figure = str(tmp_path / "mine.json"), tmp_path / "w.png"
    Instance.unstructured([0.5, 0.45, 0.43, 0.4]).to_json(path)
    given = "instances", "describe", path, "--family", "bernoulli", "--figure", str(figure)
    assert cli.main([*given]) == 0
    text = capsys.readouterr().out
    assert "T* = 989.792" in text and "0: 0.4165" in text
    assert figure.read_bytes()[:4] == b"\x89PNG"


@SLOW
def test_the_command_line_says_how_many_answers_are_right(tmp_path, capsys):
    file = tmp_path / "mine.json"
    Instance.unstructured([0.6, 0.5, 0.1]).to_json(file)
    for epsilon, right in ((0.05, 1), (0.2, 2)):
        problem = "--problem", f"BestArm({epsilon})"
        assert cli.main(["instances", "describe", str(file), *problem]) == 0
        text = capsys.readouterr().out
        found = complexity(je.load_instance(file), BestArm(epsilon=epsilon), 1e-8)
        assert text.startswith(f"BestArm(epsilon={epsilon}) on {file}: K = 3")
        assert f"H* = {float(found.value):.8g}" in text
        bound = bounds.kl_bound(0.01, found.value, right)
        assert f"/H* = {float(bound):.1f}" in text and ("2 right answers" in text) == (right == 2)
