"""The shipped instances and the generators obey the paper's protocols."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxelim import instances
from tests.calls import stack

# The shipped instances


def test_names_and_descriptions():
    assert instances.names() == ("linear-d10", "linear-d10-topm", "linear-d20", "linear-d20-osi",
                                 "unstructured-k40", "unstructured-k40-osi")  # fmt: skip
    for name in instances.names():
        about, one = instances.describe(name), instances.load_instance(name)
        assert one.name == about.name == name and not one.batched and one.noise_std == 1.0
        assert (about.K, about.d, about.structure) == (one.K, one.d, one.structure)
        assert set(about.problems) <= {"best-arm", "top-m", "thresholding"}
        assert "Table" in about.used_in
        assert (about.m is not None) == ("top-m" in about.problems)
    assert instances.describe("linear-d20").m == 5


def gap(one, m):
    """The distance between the m-th and the next mean, per instance."""
    means = -np.sort(-stack(one).means, axis=1)
    return means[:, m - 1] - means[:, m]


def obeys_d20(one, signs):
    one = stack(one)
    arms, theta, means = one.arms, one.theta, one.means
    assert one.d == 20 and (arms[:, :10] == np.eye(10, 20)).all()
    np.testing.assert_allclose(np.linalg.norm(arms, axis=-1), 1.0, rtol=1e-14)
    if signs:
        assert (np.abs(theta[:, :10]) >= 0.1).all() and (np.abs(theta[:, :10]) <= 0.2).all()
        assert (np.abs(means[:, 10:]) >= 0.5 - 1e-12).all()
    else:
        assert (theta[:, :10] == [1, 0.9, 0.9, 0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8]).all()
        assert (means[:, 10:] <= 0.5 + 1e-12).all()
        assert (gap(one, 1) > 0.09).all() and (gap(one, 5) > 0.09).all()
    return theta[:, 10:]


def obeys_d10(one, m):
    one = stack(one)
    arms = one.arms
    assert (one.theta == 1).all() and (arms[:, :m] == np.eye(m, 10)).all() and (one.K - m) % 3 == 0
    np.testing.assert_allclose(np.linalg.norm(arms, axis=-1), 1.0, rtol=1e-14)
    triples = arms[:, m:].reshape(one.size, -1, 3, 10)
    for block in range(3):
        inside = slice(1 + 3 * block, 4 + 3 * block)
        assert (triples[:, :, block, inside] == triples[:, :, 0, 1:4]).all()
        outside = np.delete(triples[:, :, block], np.r_[inside], axis=-1)
        assert not outside.any()
    sums = triples.sum(axis=-1)
    assert (sums >= -1e-12).all() and (sums <= 0.8 + 1e-12).all()
    assert (gap(one, m) >= 0.2 - 1e-12).all()


def obeys_unstructured(one, signs):
    theta = stack(one).theta
    assert one.structure == "unstructured" and np.array_equal(one.means, one.theta)
    if signs:
        assert (theta[:, :4] == [0.1, -0.2, 0.3, -0.4]).all()
        assert (np.abs(theta[:, 4:]) >= 0.5).all() and (np.abs(theta[:, 4:]) <= 1).all()
    else:
        assert (theta[:, :5] == [1, 0.9, 0.8, 0.7, 0.6]).all()
        assert (theta[:, 5:] >= 0).all() and (theta[:, 5:] <= 0.5).all()


@pytest.mark.parametrize("name, obeys, of, K", [
    ("linear-d20", obeys_d20, False, 50), ("linear-d20-osi", obeys_d20, True, 50),
    ("linear-d10", obeys_d10, 1, 52), ("linear-d10-topm", obeys_d10, 3, 51),
    ("unstructured-k40", obeys_unstructured, False, 40),
    ("unstructured-k40-osi", obeys_unstructured, True, 40),
])  # fmt: skip
def test_the_shipped_instances_obey_the_protocols(name, obeys, of, K):
    one = instances.load_instance(name)
    tail = obeys(one, of)
    assert one.K == K
    if obeys is obeys_d20:
        assert (tail >= -1).all() and (tail <= 0).all() and tail.min() < -0.5


# Generators

SEEDS = st.integers(0, 2**63 - 1)
PROBLEMS = {
    instances.linear_d20: ("best-arm", "top-m", "thresholding"),
    instances.linear_d10: ("best-arm", "top-m"),
    instances.unstructured: ("best-arm", "top-m", "thresholding"),
}
DRAWS = [(generator, problem) for generator, those in PROBLEMS.items() for problem in those]


@pytest.mark.parametrize(("generator", "problem"), DRAWS)
@settings(max_examples=10)
@given(seed=SEEDS)
def test_draws_depend_on_the_seed_and_the_index_alone(generator, problem, seed):
    options = {"problem": problem}
    one, batch = generator(seed, **options), generator(seed, 3, **options)
    assert not one.batched and batch.batched and batch.size == 3
    assert one == generator(seed, **options) == batch[0]
    assert batch[:2] == generator(seed, 2, **options)
    assert generator(seed, 1, **options) == batch[:1]
    assert len(set(batch)) == 3 and one != generator((seed + 1) % 2**63, **options)
    assert generator((seed + 2**32) % 2**63, 2, **options) != batch[:2]


def test_draws_are_stable_across_versions():
    one, other = instances.linear_d20(0), instances.unstructured(0)
    for drawn, known in (
        (other.theta[5:8], [0.47146877644, 0.15816857619, 0.36117129432]),
        (one.theta[10:13], [0.44293755288, -0.18366284761, 0.22234258865]),
        (one.arms[10, :3], [0.28737231765, -0.33221921370, 0.33289925086]),
    ):
        np.testing.assert_allclose(drawn, known, rtol=1e-9)


@settings(max_examples=10)
@given(SEEDS, st.integers(10, 60), st.sampled_from([(-0.5, 0.5), (-1, 0), (0.2, 0.2)]))
def test_linear_d20(seed, K, interval):
    for problem in PROBLEMS[instances.linear_d20]:
        one = instances.linear_d20(seed, 2, problem=problem, K=K, theta_interval=interval)
        tail = obeys_d20(one, problem == "thresholding")
        assert one.K == K and (tail >= interval[0]).all() and (tail <= interval[1]).all()


def test_linear_d20_top_m():
    for m in (1, 5, 10, 17, 49):
        one = instances.linear_d20(3, 4, problem="top-m", m=m)
        assert (gap(one, m) > 0).all() and one == instances.linear_d20(3, 4)


def test_linear_d20_draws_theta_as_in_the_paper():
    tail = obeys_d20(instances.linear_d20(1, 50), False)
    assert tail.min() < -0.45 and tail.max() > 0.45 and abs(tail.mean()) < 0.06
    signs = instances.linear_d20(1, 50, problem="thresholding", theta_interval=(-1, 0))
    tail = obeys_d20(signs, True)
    assert tail.min() < -0.95 and tail.max() < 0
    theta = instances.linear_d20(1, 50, problem="thresholding").theta[:, :10]
    assert 0.4 < (theta > 0).mean() < 0.6 and abs(np.abs(theta).mean() - 0.15) < 0.01


@settings(max_examples=20)
@given(seed=SEEDS, K=st.integers(11, 60), m=st.integers(1, 10))
def test_linear_d10(seed, K, m):
    one = instances.linear_d10(seed, 2, problem="top-m", K=K, m=m)
    obeys_d10(one, m)
    assert K <= one.K < K + 3
    best = instances.linear_d10(seed, 2, K=K)
    obeys_d10(best, 1)
    assert best.K == 1 + 3 * math.ceil((K - 1) / 3)


def test_linear_d10_as_in_the_paper():
    assert instances.linear_d10(0).K == 52 and instances.linear_d10(0, problem="top-m").K == 51
    means = instances.linear_d10(2, 20, mean_interval=(-0.5, -0.2)).means[:, 1:]
    assert means.min() < -0.45 and means.max() > -0.25 and means.max() <= -0.2 + 1e-12


@settings(max_examples=20)
@given(seed=SEEDS, K=st.integers(2, 50), data=st.data())
def test_unstructured(seed, K, data):
    m = data.draw(st.integers(1, K - 1))
    one = instances.unstructured(seed, 2, problem="top-m", K=K, m=m)
    assert one.K == one.d == K and (gap(one, m) > 0).all() and (gap(one, 1) > 0.09).all()
    signs = instances.unstructured(seed, 2, problem="thresholding", K=K)
    assert signs.K == K and (signs.means != 0).all()
    if K >= 5:
        obeys_unstructured(one, False)
        obeys_unstructured(signs, True)


def test_unstructured_intervals():
    theta = instances.unstructured(0, 40).theta[:, 5:]
    assert theta.min() < 0.02 and theta.max() > 0.48 and abs(theta.mean() - 0.25) < 0.02
    theta = instances.unstructured(0, 40, problem="thresholding").theta[:, 4:]
    assert 0.45 < (theta > 0).mean() < 0.55 and abs(np.abs(theta).mean() - 0.75) < 0.02
    theta = instances.unstructured(0, mean_interval=(-3, -2)).theta[5:]
    assert (theta >= -3).all() and (theta <= -2).all()
    equal = dict(problem="top-m", mean_interval=(0, 0))
    assert gap(instances.unstructured(0, m=5, **equal), 5) == 0.6


@given(K=st.integers(3, 200), eps=st.floats(1e-12, 0.4999))
def test_two_dimensional(K, eps):
    one = instances.two_dimensional(K, eps)
    assert (one.K, one.d, one.structure) == (K, 2, "linear")
    assert (one.arms[:2] == np.eye(2)).all() and one.theta.tolist() == [1.0, 1.0 - eps]
    assert ((one.arms[2:] > -1) & (one.arms[2:] < 0)).all() and len(set(map(tuple, one.arms))) == K
    np.testing.assert_allclose(np.linalg.norm(one.arms, axis=1), 1.0, rtol=1e-14)
    assert one.means[0] == 1 and one.means[1] == 1 - eps < 1 and (one.means[2:] < 0).all()
    other = instances.two_dimensional(K, 0.1)
    assert instances.two_dimensional(K, [eps, 0.1]) == stack([one, other])


@given(d=st.integers(2, 20), omega=st.floats(1e-7, 1.57))
def test_soare(d, omega):
    one = instances.soare(d, omega)
    assert (one.K, one.d) == (d + 1, d) and (one.arms[:d] == np.eye(d)).all()
    assert (one.theta == np.eye(d)[0]).all()
    np.testing.assert_allclose(np.linalg.norm(one.arms, axis=1), 1.0, rtol=1e-14)
    assert one.means[d] == np.cos(omega) < 1 and gap(one, 1) > 0
    assert instances.soare(d, [omega, 0.5]) == stack([one, instances.soare(d, 0.5)])
