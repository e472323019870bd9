"""Lane primitives against their definitions, for one run and many, in all forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxelim import scope
from jaxelim.contracts.sets import pack, unpack
from jaxelim.evidence.half_spaces import LinearContext
from jaxelim.evidence.linear import DiagonalDesign, SquareDesign
from jaxelim.lanes import ARMS_A_BLOCK, LaneOps, index_like, over_arm_blocks

B = 5


@pytest.fixture(autouse=True)
def x64():
    with scope.engine():
        yield


def alone(f, *x, gpu=False):
    """f(lanes, *x) in the plain form, or in that of a GPU, jitted."""
    return jax.jit(lambda *x: f(LaneOps(gpu=gpu), *x))(*x)


def each(f, *x):
    """f(lanes, *x) in the form of many runs on a CPU (traced flag), in the plain one, on a GPU."""
    tuned = jax.jit(lambda flag, *x: f(LaneOps(flag), *x))(jnp.int32(1), *x)
    return tuned, alone(f, *x), alone(f, *x, gpu=True)


REDUCTIONS = {"argmax": np.argmax, "argmin": np.argmin, "max": np.max, "min": np.min, "sum": np.sum}


@pytest.mark.parametrize("n", [1, 7, 64, 65, 130])
def test_reductions(n):
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (n, B)).astype(float)  # many ties

    def reduced(lanes, x):
        return {name: getattr(lanes, name)(x) for name in REDUCTIONS}

    def all_of(lanes, x, nothing):
        counted = lanes.sum(x > 0), lanes.any(x > 2), lanes.zeros(x)
        return reduced(lanes, x), counted, lanes.argmax(nothing)

    for named, got, none in each(all_of, x, np.full((n, B), -np.inf)):
        for name, plain in REDUCTIONS.items():
            np.testing.assert_array_equal(named[name], plain(x, 0), err_msg=name)
            assert "arg" not in name or named[name].dtype == jnp.int32
        np.testing.assert_array_equal(got[0], (x > 0).sum(0))
        np.testing.assert_array_equal(got[1], (x > 2).any(0))
        np.testing.assert_array_equal(got[2], (x == 0).sum(0))
        assert got[0].dtype == got[2].dtype == jnp.int32
        np.testing.assert_array_equal(none, 0)
    for name, got in alone(reduced, x[:, 2]).items():
        np.testing.assert_array_equal(got, REDUCTIONS[name](x[:, 2]), err_msg=name)


def test_gathers():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(9, B)), rng.normal(size=(4, 9, B))
    i, q = rng.integers(0, 9, B).astype(np.int32), rng.integers(0, 4, B).astype(np.int32)
    lane = np.arange(B)

    def gathered(lanes, x, w, i, q):
        return lanes.take(x, i), lanes.column(w, i), lanes.row(w, q)

    for got in each(gathered, x, w, i, q):
        np.testing.assert_array_equal(got[0], x[i, lane])
        np.testing.assert_array_equal(got[1], w[:, i, lane])
        np.testing.assert_array_equal(got[2], w[q, :, lane].T)

    def single(one, x, w, i, q):
        return one.take(x[:, 0], i), one.take(x[:, :1], i), one.column(w[..., 0], i[0]), (
            one.row(w[..., 0], q[:2])
        )  # fmt: skip

    got = alone(single, x, w, i, q)
    np.testing.assert_array_equal(got[0], x[i, 0])
    np.testing.assert_array_equal(got[1], x[i, 0])
    np.testing.assert_array_equal(got[2], w[:, i[0], 0])
    np.testing.assert_array_equal(got[3], w[q[:2], :, 0].T)


@pytest.mark.parametrize("n", [1, 3, ARMS_A_BLOCK, ARMS_A_BLOCK + 1, 3 * ARMS_A_BLOCK - 1])
def test_arm_blocks_cover_all_arms(n):
    more = lambda seen, arms: seen.at[arms.first + np.arange(arms.m)].add(1)  # noqa: E731
    seen = np.asarray(jax.jit(lambda seen: over_arm_blocks(n, more, seen))(np.zeros(n, np.int32)))
    assert seen.min() == 1 and seen.max() <= 2
    assert (seen == 1).all() or n % ARMS_A_BLOCK


def test_one_by_one():
    """Results of any type and rank go to their lanes; inactive lanes do not change."""
    given = jnp.arange(6.0).reshape(2, 3), jnp.array([1, 2, 3], jnp.int32)

    def f(lane):
        return given[0][:, lane] * 10, given[1][lane] + 100

    whole = jax.jit(lambda: LaneOps(jnp.int32(1)).one_by_one(f, given))()
    part = jax.jit(lambda read: LaneOps(jnp.int32(1), read).one_by_one(f, given))(jnp.int32(2))
    np.testing.assert_array_equal(whole[0], [[0, 10, 20], [30, 40, 50]])
    np.testing.assert_array_equal(whole[1], [101, 102, 103])
    np.testing.assert_array_equal(part[0], [[0, 10, 2], [30, 40, 5]])
    np.testing.assert_array_equal(part[1], [101, 102, 3])
    assert part[1].dtype == jnp.int32


@pytest.mark.parametrize("k", [1, 32, 33, 64, 70])
def test_packed_bits(k):
    rng = np.random.default_rng(k)
    bits = rng.random((k, 3, B)) < 0.5
    backwards = jax.jit(unpack, static_argnums=1)
    for words in each(pack, bits):
        assert words.shape == (-(-k // 32), 3, B) and words.dtype == jnp.uint32
        for n in range(k):
            np.testing.assert_array_equal(np.asarray(words)[n // 32] >> (n % 32) & 1, bits[n])
        np.testing.assert_array_equal(backwards(words, k), bits)
    around = lambda lanes, bits: unpack(pack(lanes, bits), k)  # noqa: E731
    np.testing.assert_array_equal(alone(around, bits[:, 0, 0]), bits[:, 0, 0])


@pytest.mark.parametrize("d", [1, 3, 8, 70])
def test_inverse(d):
    rng = np.random.default_rng(d)
    root = rng.normal(size=(d, d + 3, B))
    a = np.einsum("dkb,ekb->deb", root, root)
    for got in each(lambda lanes, a: lanes.inverse(a), jnp.asarray(a)):
        product = np.einsum("deb,efb->bdf", a, np.asarray(got))
        np.testing.assert_allclose(product, np.tile(np.eye(d), (B, 1, 1)), atol=1e-9)
    single = np.asarray(alone(lambda lanes, a: lanes.inverse(a), a[..., 0]))
    np.testing.assert_allclose(single @ a[..., 0], np.eye(d), atol=1e-9)


@pytest.mark.parametrize("n", [3, 64, 70])
@pytest.mark.parametrize("method", ["dot", "symmetric_dot"])
def test_products(method, n):
    """Own and shared matrices with one and three vectors, within and beyond unrolled sums."""
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, n, B))
    matrix += np.swapaxes(matrix, 0, 1)
    product = lambda lanes, m, v: getattr(lanes, method)(m, v)  # noqa: E731
    near = dict(rtol=1e-10, atol=1e-12)
    for shape, sums in (((n, B), "pqb,qb->pb"), ((n, 3, B), "pqb,qmb->pmb")):
        vector, shared = rng.normal(size=shape), matrix[..., 0]
        for got in each(product, matrix, vector):
            np.testing.assert_allclose(got, np.einsum(sums, matrix, vector), **near)
        for got in each(product, shared, vector):
            np.testing.assert_allclose(got, np.tensordot(shared, vector, 1), **near)
        one = alone(product, shared, vector[..., 0])
        np.testing.assert_allclose(one, shared @ vector[..., 0], **near)


@pytest.mark.parametrize("d", [4, 70])
def test_quadratic_forms_and_mixed_designs(d):
    """Shared and per-lane directions, and keep V + new phi_k phi_k', against NumPy."""
    rng = np.random.default_rng(d)
    arms, directions = 5, 3
    phi = rng.normal(size=(arms, d))
    features = jnp.asarray(phi)
    roots = rng.normal(size=(B, d, d + 4))
    v = roots @ np.swapaxes(roots, 1, 2)
    g = np.einsum("kd,bde,ke->kb", phi, np.linalg.inv(v), phi)
    square = SquareDesign(jnp.asarray(g), jnp.asarray(np.moveaxis(np.linalg.inv(v), 0, -1)))
    diagonal = DiagonalDesign(jnp.asarray(rng.uniform(0.1, 2, (d, B))))
    shared, own = rng.normal(size=(directions, d, 1)), rng.normal(size=(directions, d, B))
    full = np.einsum("db,de->deb", diagonal.g, np.eye(d))
    forms, directed = (square, diagonal), (shared, own)

    def squares(lanes, forms, directed):
        space = LinearContext(lanes, features)
        return [form.squares(space, y) for form in forms for y in directed]

    matrices = (np.asarray(square.v_inv),) * 2 + (full,) * 2
    for found in each(squares, forms, directed):
        for got, matrix, y in zip(found, matrices, directed * 2, strict=True):
            own_y = np.broadcast_to(y, (directions, d, B))
            known = np.einsum("pdb,deb,peb->pb", own_y, matrix, own_y)
            np.testing.assert_allclose(got, known, rtol=1e-9)
    k, keep, new = rng.integers(0, arms, B), rng.uniform(0.2, 0.9, B), rng.uniform(0.1, 2, B)
    mixed = lambda lanes, form, *x: form.mixed(LinearContext(lanes, features), *x)  # noqa: E731
    for got in each(mixed, square, k.astype(np.int32), keep, new):
        got = jax.tree.map(np.asarray, got)
        for b in range(B):
            anew = np.linalg.inv(keep[b] * v[b] + new[b] * np.outer(phi[k[b]], phi[k[b]]))
            np.testing.assert_allclose(got.v_inv[..., b], anew, rtol=1e-7, atol=1e-10)
            np.testing.assert_allclose(got.g[:, b], np.diag(phi @ anew @ phi.T), rtol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_near_equal_arms_keep_their_distance(scale):
    """Arms 1e-9 apart: the Gram form cancels, the safe form has eight exact digits."""
    near = [[1.0, n * 1e-9] for n in range(1, 9)]
    phi = np.array([[1.0, 0.0], *near, [0.3, -0.4]])
    v_inv = scale**2 * np.linalg.inv(np.eye(2) + phi.T @ phi)
    g = np.diag(phi @ v_inv @ phi.T)
    design = SquareDesign(jnp.asarray(g), jnp.asarray(v_inv))
    i, y = jnp.int32(0), phi[0] - phi
    truth = np.einsum("kd,de,ke->k", y, v_inv, y)

    def distances(lanes, phi, design, i):
        careful = LinearContext(lanes, phi, cancellation_safe=True)
        plain = LinearContext(lanes, phi)
        return [design.distances(space, design.cross(space, i), i) for space in (careful, plain)]

    careful, plain = alone(distances, phi, design, i)
    np.testing.assert_allclose(careful, truth, rtol=1e-8)
    assert abs(float(plain[1]) / truth[1] - 1) > 1e-3


def test_the_compiled_program_does_not_copy_the_argmax(monkeypatch):
    """A materialized tree of n - 1 compares is computed once, not once per consumer."""

    def step(lanes, x):
        i = lanes.argmax(x)
        return lanes.take(x, i) * x, jnp.where(index_like(x) == i, x, 0), x + i.astype(x.dtype)

    def compares():
        f = jax.jit(lambda flag, x: step(LaneOps(flag), x))
        text = f.lower(jnp.int32(1), jnp.zeros((50, 64))).compile().as_text()
        return sum("direction=GT" in line and "pred[64]" in line for line in text.splitlines())

    assert compares() <= 49 + 2
    # XLA may recompute trees in every consumer.
    monkeypatch.setattr(LaneOps, "materialize", lambda self, f, *x: f(*x))
    assert compares() >= 2 * 49
