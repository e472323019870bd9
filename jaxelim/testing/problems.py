"""The laws of a problem and of its set of pieces, at random theta, a quarter of them with ties.

And the certificate of a small instance in rational numbers.
"""

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.bounds.pieces import pieces_of, shape_at
from jaxelim.contracts import Estimate, Problem, Snapshot
from jaxelim.contracts.pieces import HalfSpaces
from jaxelim.errors import UnsupportedError
from jaxelim.families.gaussian import LinearGaussian
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN, LaneOps
from jaxelim.testing.instances import accepted
from jaxelim.testing.report import Generator, World, require

_exact = np.vectorize(lambda x: Fraction(float(x)), otypes=[object])
"""Arrays of floats as arrays of fractions."""


def half_spaces(z: Any, shape: Any, number: Callable = np.asarray) -> tuple[Any, Any]:
    """The pieces that exist, y . theta <= c: y [P, d] and c [P], of candidates z [C, d]."""
    shape = jax.tree.map(np.asarray, shape)
    places = np.flatnonzero(shape.exists)
    if isinstance(shape, HalfSpaces):
        return number(shape.y[places]), number(shape.c[places])
    z, last = number(np.vstack([z, np.zeros(np.shape(z)[1])])), len(z)
    if shape.signs:
        i, k = np.where(shape.above, places, last), np.where(shape.above, last, places)
    else:
        i, k = (np.broadcast_to(x, places.shape) for x in shape.pair(PLAIN, places))
    side = (k == last).astype(int) - (i == last)
    return z[i] - z[k], side * number(shape.level or 0.0) - number(shape.slack)


def _points(world: World, rng: Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Arms [n, K, d], in another order at every draw, and theta [n, d]; each fourth has ties.

    Five arms in three dimensions, or those of the instance.
    """
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


def answers(world: World, rng: Generator) -> str:
    """Answers, `correct`, `check` and `width` agree with pieces; lanes agree with one run.

    For theta and lambda with i = answer(theta), the public answer of lambda differs from that
    of theta exactly where lambda lies in a piece of i. With `shared_answers` only where it
    does; with slack i is wrong at lambda exactly there.
    """
    problem, n = world.thing, world.draws
    arms, theta = _points(world, rng, n)
    other = rng.normal(size=theta.shape)
    points = np.concatenate([theta, other])
    means = np.einsum("nkd,nd->nk", np.concatenate([arms, arms]), points)

    def look(theta: Any, means: Any) -> Any:
        constants = jax.tree.map(jnp.asarray, problem.constants())
        seen = Estimate(LaneOps(), means, theta, constants)
        answer = problem.answer(seen)
        return problem.public(seen, answer), problem.shape(seen, answer)

    one = jax.device_get(jax.jit(jax.vmap(look))(points, means))
    many = jax.device_get(jax.jit(look)(points.T, means.T))
    public, shapes = one
    for own, lanes in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
        lanes = np.moveaxis(lanes, -1, 0) if lanes.ndim == own.ndim else lanes
        require(own == lanes, "answers or pieces in lanes differ from those of one run")
    words = f"public is {list(public.shape[1:])}, width says {problem.width(arms.shape[1])}"
    require(public.shape[1:] == (problem.width(arms.shape[1]),), words)
    for at in range(n):
        shape, of_other = (jax.tree.map(lambda x, i=i: x[i], shapes) for i in (at, at + n))
        z = np.asarray(problem.constants()) if shapes.items else arms[at]
        mine, other_one, mu, mu_other = (x[i] for x in (public, means) for i in (at, at + n))
        y, c = half_spaces(z, shape)
        require(len(c) > 0, f"theta = {theta[at]}: its answer has no piece")
        inside = bool(np.any(y @ other[at] <= c))
        differs = not np.array_equal(mine, other_one)
        if problem.epsilon:
            differs = not problem.correct(mine, other_one, mu_other)
        where = f"theta = {theta[at]}, lambda = {other[at]}"
        wrong = differs and not inside if problem.shared_answers else inside != differs
        require(not wrong, f"{where}: in a piece is {inside}, another answer is {differs}")
        if np.any(y @ theta[at] <= c):  # a tie: no answer is right
            sees = type(problem).check is Problem.check
            require(sees or not accepted(problem, Instance(arms[at], theta[at])),
                    f"check accepts theta = {theta[at]}, in a piece of its own answer")  # fmt: skip
            continue
        y, c = half_spaces(z, of_other)
        inside = bool(np.any(y @ theta[at] <= c))
        right = bool(problem.correct(other_one, mine, mu))
        agrees = right or inside if problem.shared_answers else right != inside
        words = f"{where}: correct is {right} for the answer of lambda, and theta is in a piece"
        require(agrees, f"{words} of it is {inside}")
    return f"{n} pairs of theta, with ties: another answer exactly inside a piece; lanes agree"


def its_set(world: World, rng: Generator) -> str:
    """A set of pieces is full at first, loses what is dropped alone, never grows, and settles."""
    problem, walks = world.thing, max(world.draws // 10, 5)
    family = LinearGaussian(ridge=1.0, form="square", keeps_theta=True)
    constants = jax.tree.map(jnp.asarray, problem.constants())

    @jax.jit
    def look(point: Any, left: Any, out: Any, beta: Any) -> Any:
        """What a set says after a pull of each arm with these means; left: None: the full set."""
        tables, arms, theta = point
        space = family.space(LaneOps(), arms, constants)
        stats = family.start(space, problem, tables, (arms @ theta)[:, None])
        seen = Snapshot.of(family, problem, space, stats)
        shape, rows = seen.shape, [seen.shape]
        if not (shape.signs or isinstance(shape, HalfSpaces)):
            rows = [shape.others(jnp.full(1, i, jnp.int32)) for i in range(shape.candidates)]
        left = problem.pieces(seen) if left is None else left
        return dict(
            left=left, exists=shape.exists, active=left.active(seen), public=seen.public,
            largest=jnp.max(jnp.stack([
                jnp.max(jnp.where(row.exists, seen.about(row).evidence.values(), 0))
                for row in rows])),
            count=left.active_count(seen), dropped=left.drop(seen, out & shape.exists),
            selective=left.drop(seen, shape.exists & seen.evidence.refuted(beta)),
            every=left.drop_all(seen, beta), settled=left.settled(seen, False),
            ends=left.settled(seen, True), verdict=left.verdict(seen, False),
        )  # fmt: skip

    def walk(point: Any, other: Any) -> None:
        """Drop the pieces of one answer, half of them at once, then one by one."""
        now = SimpleNamespace(**jax.device_get(look(point, None, True, np.zeros(1))))
        left, model, largest = now.left, np.asarray(now.exists), now.largest[None]

        def at(point: Any, left: Any, out: Any = model & False, beta: Any = largest) -> Any:
            return SimpleNamespace(**jax.device_get(look(point, left, out, 1.001 * beta)))

        places = rng.permutation(np.flatnonzero(model))
        half = len(places) // 2
        for out in (places[:half], *places[half:], None):
            now, before = at(point, left), at(other, left).active
            require(now.active | ~model, "the set lacks a piece that is not dropped")
            require(~now.active | model, "the set has a piece that is dropped")
            n = model.sum()
            require(now.count == n, "active_count is not the number of active pieces")
            require(now.settled == (n == 0), f"settled is {now.settled} with {n} pieces left")
            require(at(point, now.every).active == model, "full elimination drops a piece that "
                    "is not refuted")  # fmt: skip
            some = at(point, left, beta=rng.uniform(0, 3, 1))
            kept = at(point, some.every).active & ~at(point, some.selective).active
            require(~kept, "full elimination keeps a piece that selective drops")
            if out is None:
                require(now.ends, "all pieces of an answer are dropped, and it is not settled")
                require(now.verdict == now.public, "all pieces are dropped; the verdict is another")
                return
            refuted = np.isin(np.arange(model.size), out).reshape(model.shape)
            left, model = at(point, left, refuted).dropped, model & ~refuted
            require(before | ~at(other, left).active, "the set grows")

    arms, theta = (np.delete(x, np.s_[3::4], 0) for x in _points(world, rng, 4 * walks))
    tables = family.tables(Instance(arms, theta))
    points = [jax.tree.map(lambda x, i=i: x[i], (tables, arms, theta)) for i in range(2 * walks)]
    try:
        for i in range(walks):
            walk(points[i], points[i + walks])
    except UnsupportedError as error:
        return f"its set of pieces was not tried: {error}"
    return f"{walks} walks of its set of pieces: it loses what is dropped alone, and never grows"


LAWS = [("answers and pieces", answers), ("its set of pieces", its_set)]


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
    for i in range(len(rows)):
        first = i + np.flatnonzero(rows[i:, i])[0]
        rows[[i, first]] = rows[[first, i]]
        rows[i] = rows[i] / rows[i, i]
        for j in range(len(rows)):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    images = rows[:, len(rows) :]
    norms = (y * images.T).sum(1)
    slopes = (phi @ images) ** 2 @ (q * (gaps / norms) ** 2) / (2 * costs)
    return min(gaps**2 / (2 * norms)) / w.sum(), max(slopes) / q.sum()
