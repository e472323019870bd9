"""The check of a problem and of its sets of pieces."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
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
from jaxelim.testing.orders import accepted
from jaxelim.testing.report import Report, lines_of, require


def check_problem(
    problem: Problem,
    instance: Instance | None = None,
    *,
    draws: int = 300,
    seed: int = 0,
    progress: Any = None,
) -> Report:
    """Check on random means that a problem's answers, pieces and set of pieces agree.

    The arms are in another order at every draw. At each fourth draw means may tie.

    - For random theta and lambda with i = answer(theta), the public answer of lambda
      differs from that of theta exactly where lambda lies in a piece of i. (With
      `shared_answers`: only where it does. With slack: i is wrong at lambda exactly
      there.)
    - `correct` calls lambda's answer right exactly where theta lies in none of its pieces.
      (With `shared_answers`: at least there.)
    - `check`, where the problem has one, refuses a theta in a piece of its own answer.
    - `public` is as long as `width` says.
    - Margins, norms and products of linear evidence are those of the pieces' definition.
    - In lanes every method gives the results of one run.
    - The set of pieces is full at first. It loses the dropped pieces and no others of
      that answer, and never grows.
    - Full elimination drops at least what selective elimination does, and nothing under
      a threshold above the LLRs of all pairs of arms.
    - Once all pieces of an answer are dropped, the set is settled on that answer. With
      one piece left it is not settled.

    These laws hold on what was drawn. They bound no error rate.

    Args:
        problem: the problem.
        instance: gives the arms; None: five arms in three dimensions.
        draws: number of pairs of theta and lambda.
        seed: of the draws.
        progress: as in `simulate`, over the two parts of the check. A callable gets (parts
            over, parts, 0, seconds).

    Raises:
        ContractError: a law is broken; the message names it.
        ArgumentError: a bad `progress`.
    """
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(5, 3)) if instance is None else instance.unbatched[0].arms
    walks = max(draws // 10, 5)

    def answers() -> str:
        _check_pieces(problem, arms, draws, instance is not None, rng)
        return (
            f"{draws} draws, the arms in other orders, with ties: another answer exactly inside "
            "a piece; margins, norms, products by definition; lanes agree with one run"
        )

    def sets() -> str | list[str]:
        try:
            _check_set(problem, arms, walks, rng)
        except UnsupportedError:
            return []
        return f"{walks} walks of its set of pieces: drops what is refuted, and never grows"

    with scope.engine():
        lines = lines_of([("answers and pieces", answers), ("its set of pieces", sets)], progress)
    on = "five arms in three dimensions" if instance is None else f"the {len(arms)} arms given"
    return Report(
        repr(problem),
        tuple(lines),
        head=(
            f"tried: {on}, {draws} random pairs of means; not shown: other arms, a rate of errors",
        ),
    )


def _snapshot(problem: Problem, arms: Any, theta: Any, v_inv: Any, t: Any) -> Snapshot:
    """The snapshot of one run, theta [d], or of lanes, theta [d, B]."""
    k, lanes = len(arms), theta.shape[1:]
    phi = jnp.asarray(arms)
    family = LinearGaussian(form="square", keeps_theta=True)
    constants = jax.tree.map(jnp.asarray, problem.constants())
    space = family.space(LaneOps(), phi, constants)
    means = space.lanes.dot(phi, theta)
    g = jnp.einsum("kd,de...,ke->k...", phi, v_inv, phi, precision="highest")
    stats = LinearStatistics(
        t=t,
        counts=jnp.ones((k, *lanes)),
        means=means,
        reward_sums=None,
        design=SquareDesign(g, v_inv),
        theta_hat=theta,
        products=None,
    )
    return Snapshot.of(family, in_lanes(problem) if lanes else problem, space, stats)


def _means(arms: np.ndarray, n: int, fixed: bool, rng: np.random.Generator) -> tuple:
    """Arms and theta of draw n: rotated, and with exact ties at each fourth."""
    k, d = arms.shape
    if n % 4 != 3:
        return np.roll(arms, n, 0), rng.normal(size=d)
    if fixed:
        return np.roll(arms, n, 0), np.zeros(d)
    small = rng.integers(-1, 2, (k, d)).astype(float)
    small[:, 0] = rng.permutation(k)  # no two arms are equal
    return small, np.concatenate([[0.0], rng.integers(-1, 2, d - 1)])


def _check_pieces(
    problem: Problem, arms: np.ndarray, draws: int, fixed: bool, rng: np.random.Generator
) -> None:
    """Compare answers with pieces, and the engine's numbers with their definition."""
    k, d = arms.shape

    def look(arms, theta, v_inv):
        seen = _snapshot(problem, arms, theta, v_inv, jnp.int32(9))
        linear: Any = seen.evidence
        index = jnp.arange(linear.margin.shape[0], dtype=jnp.int32)
        products = jax.vmap(linear.along)(index)
        return seen.public, seen.shape.exists, linear.margin, linear.norm, products, seen.shape

    def in_many(arms, theta, v_inv):
        t = jnp.full(theta.shape[1:], 9, jnp.int32)
        seen = _snapshot(problem, arms, theta, v_inv, t)
        linear: Any = seen.evidence
        return seen.public, seen.shape.exists, linear.margin, linear.norm

    look, in_many = jax.jit(look), jax.jit(in_many)
    later = []  # half of the draws, the ties among them
    for n in range(draws):
        (phi, theta), other = _means(arms, n, fixed, rng), rng.normal(size=d)
        root = rng.normal(size=(d, d + 2))
        v_inv = np.linalg.inv(root @ root.T)
        first, second = look(phi, theta, v_inv), look(phi, other, v_inv)
        directions, offsets = half_spaces(problem, phi, first[-1])
        inside = bool(np.any(directions @ other <= offsets))
        differs = not np.array_equal(first[0], second[0])
        if problem.epsilon:
            differs = not problem.correct(np.asarray(first[0]), second[0], phi @ other)
        wrong = differs and not inside if problem.shared_answers else inside != differs
        where = f"theta = {theta}, lambda = {other}"
        require(not wrong, f"{where}: in a piece is {inside}, another answer is {differs}")
        public, exists, margin, norm, products = (np.asarray(x) for x in first[:-1])
        require(exists.any(), f"theta = {theta}: its answer has no piece")
        width = problem.width(k)
        require(public.shape == (width,), f"public is {list(public.shape)}, width says {width}")
        if n % 4 > 1:
            pieces = [half_spaces(problem, phi, seen[-1]) for seen in (first, second)]
            later.append((phi, theta, public, np.asarray(second[0]), pieces, where))
        ours = np.column_stack([margin, norm, products])[exists]
        norms = np.einsum("pd,de,pe->p", directions, v_inv, directions)
        columns = [directions @ theta - offsets, norms, directions @ v_inv @ phi.T]
        same = np.allclose(ours, np.column_stack(columns), atol=1e-7)
        require(same, f"theta = {theta}: margins, norms or products are not those of its pieces")
        pair = np.stack([theta, other], 1), np.stack([v_inv, v_inv], 2)
        for name, x, y, z in zip(
            ("public", "exists", "margins", "norms"),
            first,
            second,
            in_many(phi, *pair),
            strict=False,
        ):
            equal = np.allclose(np.stack([x, y], -1), z, rtol=1e-9, atol=1e-9)
            require(equal, f"{where}: {name} in lanes differ from those of one run")
    for drawn in later:
        _check_right(problem, *drawn)


def half_spaces(problem: Problem, arms: np.ndarray, shape: Any) -> tuple[np.ndarray, np.ndarray]:
    """The pieces that exist by their definition: directions [P, d] and offsets [P]."""
    shape = jax.tree.map(np.asarray, shape)
    places = np.flatnonzero(shape.exists)
    if isinstance(shape, HalfSpaces):
        return shape.y[places], shape.c[places]
    z = np.asarray(problem.constants() if shape.items else arms)
    z = np.vstack([z, np.zeros(z.shape[1])])
    level, last = shape.level or 0.0, len(z) - 1
    if shape.signs:
        i, k = np.where(shape.above, places, last), np.where(shape.above, last, places)
    else:
        i, k = (np.broadcast_to(x, places.shape) for x in shape.pair(LaneOps(), places))
    return z[i] - z[k], level * ((k == last) * 1.0 - (i == last)) - shape.slack


def _check_right(
    problem: Problem, arms: Any, theta: Any, truth: Any, answer: Any, pieces: Any, where: str
) -> None:
    """`correct` of another answer, and `check`, where theta is the truth.

    `pieces` are those of the answer of theta, and of the other answer.
    """
    (directions, offsets), (other, of_other) = pieces
    if np.any(directions @ theta <= offsets):  # a tie: no answer is right
        if type(problem).check is not Problem.check:
            sentence = f"check accepts theta = {theta}, which is in a piece of its own answer"
            require(not accepted(problem, Instance(arms, theta)), sentence)
        return
    inside = bool(np.any(other @ theta <= of_other))
    right = bool(problem.correct(answer, truth, arms @ theta))
    agrees = right or inside if problem.shared_answers else right != inside
    said = f"correct is {right} for the answer of lambda"
    require(agrees, f"{where}: {said}, and theta is in a piece of it is {inside}")


def _check_set(problem: Problem, arms: np.ndarray, walks: int, rng: np.random.Generator) -> None:
    """Check the laws of the set of pieces, on random refutations of a few answers each."""
    d = arms.shape[1]
    v_inv = np.eye(d)[..., None]

    def at(point):
        """The snapshot at a pair of arms [K, d] and theta [d]."""
        phi, theta = point
        return _snapshot(problem, phi, theta[:, None], v_inv, jnp.array([9], jnp.int32))

    start = jax.jit(lambda point: at(point).problem.pieces(at(point)))
    look = jax.jit(lambda pieces, point: (
        pieces.active(at(point)), pieces.active_count(at(point)), at(point).shape.exists
    ))  # fmt: skip
    drop = jax.jit(lambda pieces, point, refuted: pieces.drop(at(point), refuted))

    @jax.jit
    def eliminated(pieces, point, beta):
        seen = at(point)
        refuted = seen.shape.exists & seen.evidence.refuted(beta)
        return pieces.drop(seen, refuted), pieces.drop_all(seen, beta)

    @jax.jit
    def ended(pieces, point):
        seen = at(point)
        both = [(pieces.settled(seen, full), pieces.verdict(seen, full)) for full in (False, True)]
        return both, seen.public

    shape = jax.eval_shape(lambda point: at(point).shape, (arms, arms[0]))
    for n in range(walks):
        phi = np.roll(arms, n, 0)
        points = [(phi, theta) for theta in rng.normal(size=(3, d))]
        pieces = start(points[0])
        for point in points:
            active, active_count, exists = (np.asarray(x) for x in look(start(point), point))
            require(np.array_equal(active, exists), "the full set lacks a piece of an answer")
            require(active_count == exists.sum(), "active_count is not the number of active pieces")
        for _ in range(6):
            index = int(rng.integers(3))
            point = points[index]
            before = [np.asarray(look(pieces, other)[0]) for other in points]
            exists = np.asarray(look(pieces, point)[2])
            refuted = exists & (rng.random(exists.shape) < 0.3)
            pieces = drop(pieces, point, refuted)
            kept = np.asarray(look(pieces, point)[0])
            lost = before[index] & ~refuted & ~kept
            require(not lost.any(), "drop loses a piece that is not refuted")
            beta = np.array([np.quantile(rng.random(4), 0.5) * 3])
            few, more = eliminated(pieces, point, beta)
            of_few, of_more = (np.asarray(look(left, point)[0]) for left in (few, more))
            require(
                not (of_more & ~of_few).any(), "full elimination keeps a piece that selective drops"
            )
            pieces = few
            after = [np.asarray(look(pieces, other)[0]) for other in points]
            grown = any((y & ~x).any() for x, y in zip(before, after, strict=True))
            require(not grown, "the set grows")
        point = points[0]
        full = start(point)
        exists = np.asarray(look(full, point)[2])
        some = exists & (rng.random(exists.shape) < 0.5)
        left = np.asarray(look(drop(full, point, some), point)[0])
        require(not (left & some).any(), "drop leaves a piece that is refuted")
        beta = np.array([1.001 * _largest(shape, *point)])
        kept = np.asarray(look(eliminated(full, point, beta)[1], point)[0])
        require(np.array_equal(kept, exists), "full elimination drops a piece that is not refuted")
        last = rng.choice(np.flatnonzero(exists))  # the piece that stays
        left = drop(full, point, exists & (np.arange(exists.size) != last).reshape(exists.shape))
        early = ended(left, point)[0][0][0]
        require(not early, "the set is settled on an answer with a piece left")
        done = drop(full, point, exists)
        for settled, verdict in ended(done, point)[0]:
            require(settled, "all pieces of an answer are dropped, and the set is not settled")
            right = np.array_equal(verdict, ended(done, point)[1])
            require(right, "all pieces of an answer are dropped, and the verdict is another")
        require(not ended(full, point)[0][0][0], "the full set is settled")


def _largest(shape: Any, arms: np.ndarray, theta: np.ndarray) -> float:
    """The largest LLR of a pair of arms, or of an arm and the level, where V = I; or inf."""
    if not isinstance(shape, Pairs) or shape.slack or shape.items:
        return np.inf
    y, margins = arms, arms @ theta - (shape.level or 0.0)
    if not shape.signs:
        pairs = (arms[:, None] - arms).reshape(-1, arms.shape[1])
        pairs = pairs[np.any(pairs != 0, 1)]
        of_level = (y, margins) if shape.refers else (y[:0], margins[:0])
        y, margins = np.vstack([pairs, of_level[0]]), np.append(pairs @ theta, of_level[1])
    return float(np.max(margins**2 / (2 * np.sum(y**2, 1))))
