"""The check of a problem and of its sets of pieces."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Problem
from jaxelim.contracts.views import Snapshot
from jaxelim.errors import UnsupportedError
from jaxelim.families.designs import SquareDesign
from jaxelim.families.gaussian import LinearGaussian, LinearStatistics
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.problems.lanewise import in_lanes
from jaxelim.testing.report import Report, require


def check_problem(
    problem: Problem, instance: Instance | None = None, *, draws: int = 300, seed: int = 0
) -> Report:
    """Certify that a problem's answers, pieces and set of pieces agree.

    - For random theta and lambda with i = answer(theta), the public answer of lambda
      differs from that of theta exactly where lambda lies in a piece of i. (With
      `shared_answers`: only where it does.)
    - Margins, norms and products of the engine's shape equal those of `half_spaces`.
    - In lanes every method gives the results of one run.
    - The set of pieces is full at first. It loses the dropped pieces and no others of
      that answer, and never grows.
    - Full elimination drops at least what selective elimination does.
    - Once all pieces of an answer are dropped, the set is settled on that answer.

    Args:
        problem: the problem.
        instance: gives the arms; None: five arms in three dimensions.
        draws: number of pairs of theta and lambda.
        seed: of the draws.

    Raises:
        ContractError: a law is broken; the message names it.
    """
    rng = np.random.default_rng(seed)
    arms = rng.normal(size=(5, 3)) if instance is None else np.asarray(instance.arms)
    with scope.engine():
        _check_pieces(problem, arms, draws, rng)
        try:
            sets = _check_set(problem, arms, max(draws // 10, 5), rng)
        except UnsupportedError:
            sets = 0
    lines = [
        f"{draws} draws: another answer exactly inside a piece; "
        "margins, norms, products as half_spaces has them; lanes agree with one run"
    ]
    if sets:
        lines.append(f"{sets} walks of its set of pieces: drops what is refuted, and never grows")
    return Report(repr(problem), tuple(lines))


def _snapshot(problem: Problem, arms: np.ndarray, theta: Any, v_inv: Any, t: Any) -> Snapshot:
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
        lost=None,
        products=None,
    )
    return Snapshot.of(family, in_lanes(problem) if lanes else problem, space, stats)


def _check_pieces(problem: Problem, arms: np.ndarray, draws: int, rng: np.random.Generator):
    """Compare answers with pieces, and the engine's shape with `half_spaces`."""
    d = arms.shape[1]

    def look(theta, v_inv):
        seen = _snapshot(problem, arms, theta, v_inv, jnp.int32(9))
        linear: Any = seen.evidence
        each = jnp.arange(linear.margin.shape[0], dtype=jnp.int32)
        products = jax.vmap(linear.along)(each)
        return seen.public, seen.shape.exists, linear.margin, linear.norm, products

    def in_many(theta, v_inv):
        t = jnp.full(theta.shape[1:], 9, jnp.int32)
        seen = _snapshot(problem, arms, theta, v_inv, t)
        linear: Any = seen.evidence
        return seen.public, seen.shape.exists, linear.margin, linear.norm

    look, in_many = jax.jit(look), jax.jit(in_many)
    order = lambda rows: rows[np.lexsort(np.round(rows, 9).T)]  # noqa: E731
    for _ in range(draws):
        theta, other = rng.normal(size=(2, d))
        directions, offsets = problem.half_spaces(arms, theta)
        inside = bool(np.any(directions @ other <= offsets))
        root = rng.normal(size=(d, d + 2))
        v_inv = np.linalg.inv(root @ root.T)
        one, two = look(theta, v_inv), look(other, v_inv)
        differs = not np.array_equal(one[0], two[0])
        wrong = differs and not inside if problem.shared_answers else inside != differs
        where = f"theta = {theta}, lambda = {other}"
        require(not wrong, f"{where}: in a piece is {inside}, another answer is {differs}")
        _, exists, margin, norm, products = (np.asarray(x) for x in one)
        require(exists.any(), f"theta = {theta}: its answer has no piece")
        ours = order(np.column_stack([margin, norm, products])[exists])
        norms = np.einsum("pd,de,pe->p", directions, v_inv, directions)
        columns = [directions @ theta - offsets, norms, directions @ v_inv @ arms.T]
        theirs = order(np.column_stack(columns))
        same = ours.shape == theirs.shape and np.allclose(ours, theirs, atol=1e-7)
        require(same, f"theta = {theta}: margins, norms or products are not those of half_spaces")
        pair = np.stack([theta, other], 1), np.stack([v_inv, v_inv], 2)
        for name, x, y, z in zip(
            ("public", "exists", "margins", "norms"), one, two, in_many(*pair), strict=False
        ):
            equal = np.allclose(np.stack([x, y], -1), z, rtol=1e-9, atol=1e-9)
            require(equal, f"{where}: {name} in lanes differ from those of one run")


def _check_set(problem: Problem, arms: np.ndarray, walks: int, rng: np.random.Generator) -> int:
    """Check the laws of the set of pieces, on random refutations of a few answers each."""
    d = arms.shape[1]
    v_inv = np.eye(d)[..., None]
    # A group of half-spaces is dropped when all of them are refuted.
    grouped = problem.times_axes == ("answer_index", "piece")

    def at(theta):
        return _snapshot(problem, arms, theta[:, None], v_inv, jnp.array([9], jnp.int32))

    start = jax.jit(lambda theta: at(theta).problem.pieces(at(theta)))
    look = jax.jit(lambda pieces, theta: (
        pieces.active(at(theta)), pieces.active_count(at(theta)), at(theta).shape.exists
    ))  # fmt: skip
    drop = jax.jit(lambda pieces, theta, refuted: pieces.drop(at(theta), refuted))

    @jax.jit
    def eliminated(pieces, theta, beta):
        seen = at(theta)
        refuted = seen.shape.exists & seen.evidence.refuted(beta)
        return pieces.drop(seen, refuted), pieces.drop_all(seen, beta)

    @jax.jit
    def ended(pieces, theta):
        seen = at(theta)
        both = [(pieces.settled(seen, full), pieces.verdict(seen, full)) for full in (False, True)]
        return both, seen.public

    for _ in range(walks):
        thetas = rng.normal(size=(3, d))
        pieces = start(thetas[0])
        for theta in thetas:
            active, active_count, exists = (np.asarray(x) for x in look(start(theta), theta))
            require(np.array_equal(active, exists), "the full set lacks a piece of an answer")
            require(
                active_count == exists.sum(), "active_count is not the number of active pieces"
            )
        for _ in range(6):
            theta = thetas[rng.integers(3)]
            before = [np.asarray(look(pieces, one)[0]) for one in thetas]
            exists = np.asarray(look(pieces, theta)[2])
            refuted = exists & (rng.random(exists.shape) < 0.3)
            pieces = drop(pieces, theta, refuted)
            was = before[int(np.argmax((thetas == theta).all(1)))]
            kept = np.asarray(look(pieces, theta)[0])
            require(not (was & ~refuted & ~kept).any(), "drop loses a piece that is not refuted")
            beta = np.array([np.quantile(rng.random(4), 0.5) * 3])
            few, more = eliminated(pieces, theta, beta)
            of_few, of_more = (np.asarray(look(one, theta)[0]) for one in (few, more))
            require(
                not (of_more & ~of_few).any(), "full elimination keeps a piece that selective drops"
            )
            pieces = few
            after = [np.asarray(look(pieces, one)[0]) for one in thetas]
            grown = any((y & ~x).any() for x, y in zip(before, after, strict=True))
            require(not grown, "the set grows")
        theta = thetas[0]
        full = start(theta)
        exists = np.asarray(look(full, theta)[2])
        some = exists & (rng.random(exists.shape) < 0.5)
        left = np.asarray(look(drop(full, theta, some), theta)[0])
        require(not (left & some).any() or grouped, "drop leaves a piece that is refuted")
        done = drop(full, theta, exists)
        for settled, verdict in ended(done, theta)[0]:
            require(settled, "all pieces of an answer are dropped, and the set is not settled")
            right = np.array_equal(verdict, ended(done, theta)[1])
            require(right, "all pieces of an answer are dropped, and the verdict is another")
        require(not ended(full, theta)[0][0][0], "the full set is settled")
    return walks
