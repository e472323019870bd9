"""The laws of a problem and of its set of pieces, at random theta, a quarter of them with ties.

And the certificate of a small instance in rational numbers.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.bounds.pieces import pieces_of, shape_at
from jaxelim.contracts import Estimate, HalfSpaces, Problem, Snapshot
from jaxelim.errors import UnsupportedError
from jaxelim.families.gaussian import LinearGaussian
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.testing.report import World, require
from jaxelim.testing.rules import accepted

_exact = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])  # of arrays of floats


def half_spaces(z: Any, shape: Any, number: Callable = np.asarray) -> tuple[Any, Any]:
    """The pieces that exist, y . theta <= c: y [P, d] and c [P], of candidates z [C, d]."""
    if isinstance(shape, HalfSpaces):
        return number(shape.y[shape.exists]), number(shape.c[shape.exists])
    z, last = number(np.vstack([z, np.zeros(np.shape(z)[1])])), len(z)
    i, k = (np.asarray(x)[np.asarray(shape.exists)] for x in shape.places())
    side = (k == last).astype(int) - (i == last)
    return z[i] - z[k], side * number(shape.level or 0.0) - number(shape.slack)


def _points(world: World, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Arms [n, 5, 3] or the instance's, in n orders, and theta [n, d]; each fourth has ties."""
    rng = world.rng
    own = world.instance.unbatched[0].arms if world.instance else rng.normal(size=(5, 3))
    k, d = own.shape
    arms, theta = np.stack([np.roll(own, i, 0) for i in range(n)]), rng.normal(size=(n, d))
    tied = arms[3::4]  # integers, no two arms equal and none 0; those of an instance at theta = 0
    theta[3::4] = 0
    if world.instance is None:
        tied[:] = rng.integers(-1, 2, tied.shape)
        tied[:, :, 0] = 1 + rng.permuted(np.tile(np.arange(k), (len(tied), 1)), axis=1)
        theta[3::4, 1:] = np.stack([np.ones(len(tied)), rng.integers(-1, 2, len(tied))], 1)
    return arms, theta


def answers(world: World) -> str:
    """An answer is wrong at another point, and not the one there, just where its pieces hold it.

    With `shared_answers` only there.
    """
    problem, n = world.thing, world.draws
    arms, theta = _points(world, n)
    points = np.concatenate([theta, world.rng.normal(size=theta.shape)])
    means = np.einsum("nkd,nd->nk", np.concatenate([arms, arms]), points)

    def look(theta: Any, means: Any) -> Any:
        constants = jax.tree.map(jnp.asarray, problem.constants())
        seen = Estimate(LaneOps(), means, theta, constants)
        answer = problem.answer(seen)
        return problem.public(seen, answer), problem.shape(seen, answer)

    public, shapes = every = jax.device_get(jax.jit(jax.vmap(look))(points, means))
    many = jax.device_get(jax.jit(look)(points.T, means.T))
    for own, lanes in zip(jax.tree.leaves(every), jax.tree.leaves(many), strict=True):
        lanes = np.moveaxis(lanes, -1, 0) if lanes.ndim == own.ndim else lanes
        require(own == lanes, "answers or pieces in lanes differ from those of one run")
    words = f"public is {list(public.shape[1:])}, width says {problem.width(arms.shape[1])}"
    require(public.shape[1:] == (problem.width(arms.shape[1]),), words)
    for one, other in [(i + j, i + n - j) for i in range(n) for j in (0, n)]:
        (y, c), (own, of_own) = (half_spaces(
            np.asarray(problem.constants()) if shapes.items else arms[at % n],
            jax.tree.map(lambda x, at=at: x[at], shapes)) for at in (one, other))  # fmt: skip
        require(len(c) > 0, f"theta = {points[one]}: its answer has no piece")
        if one >= n and np.any(own @ points[other] <= of_own):  # a tie: no answer is right
            sees = type(problem).check is Problem.check
            require(sees or not accepted(problem, Instance(arms[other], points[other])),
                    f"check accepts theta = {points[other]}, in a piece of its own answer")
            continue
        inside = bool(np.any(y @ points[other] <= c))
        right = bool(problem.correct(public[one], public[other], means[other]))
        differs = not np.array_equal(public[one], public[other])
        agrees = [inside or not x if problem.shared_answers else inside == x
                  for x in ({not right} if problem.epsilon else {not right, differs})]  # fmt: skip
        require(all(agrees), f"at {points[other]} of the answer at {points[one]}: in a piece is "
                f"{inside}, correct is {right}, another answer is {differs}")  # fmt: skip
    return f"{n} pairs of theta, with ties: another answer exactly inside a piece; lanes agree"


SET = (  # what is wrong with it
    "the set lacks a piece that is not dropped", "the set has a piece that is dropped",
    "active_count is not the number of active pieces", "settled is {settled} with {n} pieces left",
    "full elimination drops a piece that is not refuted",
    "full elimination keeps a piece that selective drops", "the set grows",
    "all pieces of an answer are dropped, and it is not settled",
    "all pieces are dropped; the verdict is another",
)  # fmt: skip


def its_set(world: World) -> str:
    """A set of pieces is full at first, loses what is dropped alone, never grows, and settles."""
    problem, walks = world.thing, max(world.draws // 10, 5)
    family = LinearGaussian(ridge=1.0, form="square", keeps_theta=True)
    constants = jax.tree.map(jnp.asarray, problem.constants())

    def look(tables: Any, arms: Any, theta: Any) -> Snapshot:
        """After a pull of each arm, with these means."""
        space = family.space(LaneOps(), arms, constants)
        stats = family.start(space, problem, tables, (arms @ theta)[:, None])
        return Snapshot.of(family, problem, space, stats)

    @jax.jit
    @jax.vmap
    def walk(point: Any, other: Any, key: Any) -> Any:
        """Drop the pieces of one answer, half of them at once, then one by one."""
        seen, far = look(*point), look(*other)
        shape, rows = seen.shape, [seen.shape]
        if not (shape.signs or isinstance(shape, HalfSpaces)):
            rows = [shape.others(jnp.full(1, i, jnp.int32)) for i in range(shape.candidates)]
        largest = 1.001 * jnp.max(jnp.stack([
            jnp.max(jnp.where(row.exists, seen.about(row).evidence.values(), 0))
            for row in rows]), keepdims=True)  # fmt: skip
        size = len(shape.exists)
        turn = jnp.maximum(jax.random.permutation(key, size) - size // 2, 0)[:, None]

        def step(carry: Any, at: Any) -> Any:
            (left, model), (now, beta) = carry, at
            some = left.drop(seen, shape.exists & seen.evidence.refuted(beta))
            every, whole = (left.drop_all(seen, x).active(seen) for x in (beta, largest))
            active, settled = left.active(seen), left.settled(seen, False)
            n = jnp.sum(model, 0, dtype=jnp.int32)
            after = left.drop(seen, model & (turn == now))
            found = (
                active | ~model, ~active | model, left.active_count(seen) == n,
                settled == (n == 0), whole == model, ~every | some.active(seen),
                left.active(far) | ~after.active(far), left.settled(seen, True) | (n > 0),
                (left.verdict(seen, False) == seen.public) | (n > 0),
            )  # fmt: skip
            return (after, model & (turn != now)), (n, settled, *map(jnp.all, found))

        betas = jax.random.uniform(key, (size + 2, 1), maxval=3.0)
        first = problem.pieces(seen), shape.exists
        return jax.lax.scan(step, first, (jnp.arange(size + 2), betas))[1]

    arms, theta = (np.delete(x, np.s_[3::4], 0) for x in _points(world, 4 * walks))
    arms, theta = arms[: 2 * walks], theta[: 2 * walks]
    every = family.tables(Instance(arms, theta)), arms, theta
    keys = jax.random.split(jax.random.key(world.rng.integers(2**31)), walks)
    try:
        n, settled, *found = walk(*(jax.tree.map(lambda x, own=own: x[own], every) for own in (
            np.s_[:walks], np.s_[walks:])), keys)  # fmt: skip
    except UnsupportedError as error:
        return f"its set of pieces was not tried: {error}"
    for words, holds in zip(SET, found, strict=True):
        require(holds, words, n=n[..., 0], settled=settled[..., 0])
    return f"{walks} walks of its set of pieces: it loses what is dropped alone, and never grows"


def exact_bracket(
    instance: Instance, problem: Any, allocation: Any, mixture: Any
) -> tuple[Fraction, Fraction]:
    """min_p H_p(w) <= H* <= max_k sum_p q_p dH_p/dw_k (w), both sides without rounding.

    It takes about K d^2 + d^3 operations on long integers, so it is for small instances.

    Args:
        instance: one instance of `Gaussian` rewards of one standard deviation; arms, theta
            and costs count as they are in float64.
        problem: what to identify.
        allocation: w, [K], of sum 1 within rounding.
        mixture: q over the pieces that exist, [P].

    Raises:
        UnsupportedError: a batch, or rewards of another family.
        ArgumentError: as `complexity`.
    """
    if instance.batched or not instance.family.design:
        allowed = "one instance of gaussian rewards of one standard deviation"
        raise UnsupportedError("instance", instance, allowed)
    pieces_of(instance, problem)  # refuses ties, and what has no pieces
    shape: Any = shape_at(problem, instance.family, instance.arms, instance.theta)
    y, offsets = half_spaces(problem.constants() if shape.items else instance.arms, shape, _exact)
    phi, w, q = _exact(instance.arms), _exact(allocation), _exact(mixture)
    costs = _exact(np.ones(len(phi)) if instance.costs is None else instance.costs)
    gaps = (y @ _exact(instance.theta) - offsets) / Fraction(instance.noise_std)
    rows = np.hstack([phi.T @ ((w / costs)[:, None] * phi), y.T])  # [V, y] becomes [I, V^-1 y]
    for i in range(len(rows)):  # V is positive definite, so that no pivot is 0
        rows[i] = rows[i] / rows[i, i]
        others = np.arange(len(rows)) != i
        rows[others] -= rows[others, i][:, None] * rows[i]
    images = rows[:, len(rows) :]
    norms = (y * images.T).sum(1)
    slopes = (phi @ images) ** 2 @ (q * (gaps / norms) ** 2) / (2 * costs)
    return min(gaps**2 / (2 * norms)) / w.sum(), max(slopes) / q.sum()
