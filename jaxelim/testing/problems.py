"""The laws of a problem and of its sets of pieces.

They hold on random theta, with V random or the identity, the arms in another order at every
draw. At each fourth draw means tie.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.contracts import Problem
from jaxelim.contracts.pieces import HalfSpaces, Pairs
from jaxelim.contracts.views import Snapshot
from jaxelim.errors import UnsupportedError
from jaxelim.evidence.designs import SquareDesign
from jaxelim.families.gaussian import LinearGaussian
from jaxelim.families.linear_statistics import LinearStatistics
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.problems.lanewise import in_lanes
from jaxelim.testing.instances import accepted
from jaxelim.testing.report import World, require


def laws(world: World) -> list[tuple[str, Any]]:
    return [("answers and pieces", pieces_agree), ("its set of pieces", set_loses_the_refuted)]


def _snapshot(problem: Problem, arms: Any, theta: Any, v_inv: Any) -> Snapshot:
    """The snapshot of one run, theta [d], or of lanes, theta [d, B]."""
    k, lanes = len(arms), theta.shape[1:]
    phi, t = jnp.asarray(arms), jnp.full(lanes, 9, jnp.int32)
    family = LinearGaussian(form="square", keeps_theta=True)
    constants = jax.tree.map(jnp.asarray, problem.constants())
    space = family.space(LaneOps(), phi, constants)
    means = space.lanes.dot(phi, theta)
    g = jnp.einsum("kd,de...,ke->k...", phi, v_inv, phi, precision="highest")
    stats = LinearStatistics(
        t=t, counts=jnp.ones((k, *lanes)), means=means, reward_sums=None,
        design=SquareDesign(g, v_inv), theta_hat=theta, products=None,
    )  # fmt: skip
    return Snapshot.of(family, in_lanes(problem) if lanes else problem, space, stats)


def half_spaces(z: Any, shape: Any, number: Callable = np.asarray) -> tuple[Any, Any]:
    """The pieces that exist by their definition, y . theta <= c: y [P, d] and c [P].

    Args:
        z: of the candidates that the pieces compare, arms or items, [C, d].
        shape: of the pieces.
        number: what makes numbers of floats, for other arithmetic than theirs.
    """
    shape = jax.tree.map(np.asarray, shape)
    places = np.flatnonzero(shape.exists)
    if isinstance(shape, HalfSpaces):
        return number(shape.y[places]), number(shape.c[places])
    z, last = number(np.vstack([z, np.zeros(np.shape(z)[1])])), len(z)
    if shape.signs:
        i, k = np.where(shape.above, places, last), np.where(shape.above, last, places)
    else:
        i, k = (np.broadcast_to(x, places.shape) for x in shape.pair(LaneOps(), places))
    side = (k == last).astype(int) - (i == last)
    return z[i] - z[k], side * number(shape.level or 0.0) - number(shape.slack)


def _arms(world: World) -> np.ndarray:
    """Five arms in three dimensions, or those of the instance."""
    if world.instance is None:
        return np.random.default_rng(world.seed).normal(size=(5, 3))
    return world.instance.unbatched[0].arms


def _drawn(world: World, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Arms and theta of draw n: rotated, and with exact ties at each fourth."""
    arms = _arms(world)
    k, d = arms.shape
    if n % 4 != 3:
        return np.roll(arms, n, 0), rng.normal(size=d)
    if world.instance is not None:
        return np.roll(arms, n, 0), np.zeros(d)
    small = rng.integers(-1, 2, (k, d)).astype(float)
    small[:, 0] = 1 + rng.permutation(k)  # no two arms are equal, and none is 0
    return small, np.concatenate([[0.0], rng.integers(-1, 2, d - 1)])


def pieces_agree(world: World, rng: np.random.Generator) -> str:
    """Answers, `correct` and `check` agree with pieces; numbers are those of their definition.

    For theta and lambda with i = answer(theta), the public answer of lambda differs from that
    of theta exactly where lambda lies in a piece of i. With `shared_answers` only where it
    does; with slack i is wrong at lambda exactly there.
    """
    problem: Problem = world.thing

    @jax.jit
    def look(arms, theta, v_inv):
        seen = _snapshot(problem, arms, theta, v_inv)
        linear: Any = seen.evidence
        index = jnp.arange(linear.margin.shape[0], dtype=jnp.int32)
        products = () if theta.ndim > 1 else jax.vmap(linear.along)(index)
        return (seen.public, seen.shape.exists, linear.margin, linear.norm), products, seen.shape

    for n in range(world.draws):
        phi, theta = _drawn(world, n, rng)
        k, d = phi.shape
        other, root = rng.normal(size=d), rng.normal(size=(d, d + 2))
        v_inv = np.linalg.inv(root @ root.T)
        first, products, shape = look(phi, theta, v_inv)
        second, _, of_other = look(phi, other, v_inv)
        z = np.asarray(problem.constants()) if shape.items else phi
        directions, offsets = half_spaces(z, shape)
        inside = bool(np.any(directions @ other <= offsets))
        public, exists, margin, norm = map(np.asarray, first)
        answer = np.asarray(second[0])
        differs = not np.array_equal(public, answer)
        if problem.epsilon:
            differs = not problem.correct(public, answer, phi @ other)
        where = f"theta = {theta}, lambda = {other}"
        wrong = differs and not inside if problem.shared_answers else inside != differs
        require(not wrong, f"{where}: in a piece is {inside}, another answer is {differs}")
        require(exists.any(), f"theta = {theta}: its answer has no piece")
        words = f"public is {list(public.shape)}, width says {problem.width(k)}"
        require(public.shape == (problem.width(k),), words)
        ours = np.column_stack([margin, norm, np.asarray(products)])[exists]
        norms = np.einsum("pd,de,pe->p", directions, v_inv, directions)
        columns = [directions @ theta - offsets, norms, directions @ v_inv @ phi.T]
        same = np.allclose(ours, np.column_stack(columns), atol=1e-7)
        require(same, f"{where}: margins, norms or products are not those of its pieces")
        lanes, _, _ = look(phi, np.stack([theta, other], 1), np.stack([v_inv] * 2, 2))
        names = ("public", "exists", "margins", "norms")
        for name, x, y, both in zip(names, first, second, lanes, strict=True):
            equal = np.allclose(np.stack([x, y], -1), both, rtol=1e-9, atol=1e-9)
            require(equal, f"{where}: {name} in lanes differ from those of one run")
        if np.any(directions @ theta <= offsets):  # a tie: no answer is right
            sees = type(problem).check is Problem.check
            sees = sees or not accepted(problem, Instance(phi, theta))
            words = f"check accepts theta = {theta}, which is in a piece of its own answer"
            require(sees, words)
            continue
        other_y, other_c = half_spaces(z, of_other)
        inside = bool(np.any(other_y @ theta <= other_c))
        right = bool(problem.correct(answer, public, phi @ theta))
        agrees = right or inside if problem.shared_answers else right != inside
        words = f"{where}: correct is {right} for the answer of lambda, and theta is in a piece"
        require(agrees, f"{words} of it is {inside}")
    return (f"{world.draws} pairs of theta, with ties: another answer exactly inside a piece; "
            "margins, norms and products by definition; lanes agree with one run")  # fmt: skip


def set_loses_the_refuted(world: World, rng: np.random.Generator) -> str:
    """A set of pieces is full at first, loses what is refuted alone, settles, and never grows."""
    problem, arms, walks = world.thing, _arms(world), max(world.draws // 10, 5)
    d = arms.shape[1]

    @jax.jit
    def look(point, left, refuted, beta):
        """What the methods of a set give at a point, arms and theta; left: None: the full set."""
        phi, theta = point
        seen = _snapshot(problem, phi, theta[:, None], jnp.eye(d)[..., None])
        full = seen.problem.pieces(seen)
        left, exists = full if left is None else left, seen.shape.exists
        return seen.shape, dict(
            exists=exists, active=left.active(seen), count=left.active_count(seen), full=full,
            public=seen.public, dropped=left.drop(seen, exists & (exists if refuted is None
                                                                  else refuted)),
            selective=left.drop(seen, exists & seen.evidence.refuted(beta)),
            every=left.drop_all(seen, beta), settled=[left.settled(seen, x) for x in (False, True)],
            verdict=[left.verdict(seen, x) for x in (False, True)],
        )  # fmt: skip

    def at(point: Any, left: Any = None, refuted: Any = None, beta: float = 0.0) -> Any:
        found = look(point, left, refuted, np.array([beta]))[1]
        return SimpleNamespace(**jax.tree.map(np.asarray, found))

    def active(point: Any, left: Any) -> np.ndarray:
        return at(point, left).active

    try:
        for n in range(walks):
            points = [(np.roll(arms, n, 0), rng.normal(size=d)) for _ in range(3)]
            largest = _largest(look(points[0], None, None, np.zeros(1))[0], *points[0])
            _walk(at, active, points, largest, rng)
    except UnsupportedError as error:
        return f"its set of pieces was not tried: {error}"
    return f"{walks} walks of its set of pieces: it loses what is refuted alone, and never grows"


def _walk(at: Callable, active: Callable, points: list, largest: float, rng: Any) -> None:
    """Random refutations of a few answers, in turn, of one set; then those of one answer."""
    for point in points:
        now = at(point)
        require(now.active == now.exists, "the full set lacks a piece of an answer")
        same = now.count == now.exists.sum()
        require(same, "active_count is not the number of active pieces")
    left = at(points[0]).full
    for _ in range(6):
        index = int(rng.integers(3))
        point, before = points[index], [active(one, left) for one in points]
        refuted = rng.random(before[index].shape) < 0.3
        left = at(point, left, refuted).dropped
        lost = before[index] & ~refuted & ~active(point, left)
        require(~lost, "drop loses a piece that is not refuted")
        now = at(point, left, beta=rng.uniform(0, 3))
        kept = active(point, now.every) & ~active(point, now.selective)
        require(~kept, "full elimination keeps a piece that selective drops")
        left = now.selective
        for one, old in zip(points, before, strict=True):
            require(old | ~active(one, left), "the set grows")
    point = points[0]
    some = rng.random(at(point).exists.shape) < 0.5
    now = at(point, refuted=some, beta=1.001 * largest)
    require(~(active(point, now.dropped) & some), "drop leaves a piece that is refuted")
    same = active(point, now.every) == now.exists
    require(same, "full elimination drops a piece that is not refuted")
    require(not now.settled[0], "the full set is settled")
    last = rng.choice(np.flatnonzero(now.exists))  # the piece that stays
    others = (np.arange(some.size) != last).reshape(some.shape)
    early = at(point, at(point, refuted=others).dropped).settled[0]
    require(not early, "the set is settled on an answer with a piece left")
    done = at(point, at(point).dropped)
    require(all(done.settled), "all pieces of an answer are dropped, and the set is not settled")
    right = all(np.array_equal(one, done.public) for one in done.verdict)
    require(right, "all pieces of an answer are dropped, and the verdict is another")


def _largest(shape: Any, arms: np.ndarray, theta: np.ndarray) -> float:
    """The largest LLR of a pair of arms, or of an arm and the level, where V = I; or inf."""
    if not isinstance(shape, Pairs) or shape.slack or shape.items:
        return np.inf
    y, c = arms, np.full(len(arms), shape.level or 0.0)
    if not shape.signs:
        pairs = (arms[:, None] - arms).reshape(-1, arms.shape[1])
        more = len(arms) if shape.refers else 0
        y, c = np.vstack([pairs, y[:more]]), np.append(np.zeros(len(pairs)), c[:more])
    norms = np.maximum(np.sum(y**2, 1), 1e-300)  # an arm and itself are no pair
    return float(np.max((y @ theta - c) ** 2 / (2 * norms)))
