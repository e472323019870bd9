"""Rewards that are 0 or 1, with features: a logistic regression of each arm's mean.

s_k = phi_k . theta is the score of arm k, and d(x, y) the divergence of the means at scores x
and y. The LLR of a piece is the least over the piece of

    D(theta) = sum_k N_k d(phi_k . theta_hat, phi_k . theta) + ridge ||theta - theta_hat||^2/2.

Weights in place of N, and no ridge, give H_p(w), and dH_p/dw_k is the divergence at the closest
point. (McCullagh & Nelder 1989, chapter 4) Newton steps by the share log(1 + m)/m of the full
one, m its largest change of a score, always descend. (Bach 2010)
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.pieces import HalfSpaces, Pieces
from jaxelim.contracts.views import Evidence, Snapshot, Statistics
from jaxelim.errors import ArgumentError
from jaxelim.evidence.half_spaces import Bent, Coordinates, LinearContext
from jaxelim.evidence.linear import LinearEvidence, SquareDesign, weighted
from jaxelim.families.one_parameter import Bernoulli
from jaxelim.lanes import PLAIN, LaneOps, index_like, pytree, settings
from jaxelim.matrices import factor_inverse, product

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

_LARGEST_SCORE = 30.0  # |phi . theta|, beyond which hardly any reward differs from the others
STEPS = 100  # most Newton steps of one search; warm ones take two or three, cold ones five
LEAST_CURVATURE = 1e-13  # added to a step's matrix, in its trace: arms need not span R^d
_ROUNDING = 1e-9  # what an upper bound on an LLR is raised by, as a share


@settings
class Logistic(Family):
    r"""Rewards that are 1 with probability 1/(1 + exp(-phi_k . theta)), else 0.

    The estimate maximises the penalised log-likelihood

    $$
    \ell(\theta) = \sum_k S_k s_k - N_k \log(1 + \exp(s_k)) - \mathrm{ridge}\, |\theta|^2/2
    $$

    s_k = phi_k . theta, S_k the number of ones among N_k rewards. The LLR of a piece is the
    maximum of ell less its maximum over the piece. A level beta tests what a level
    beta - ridge ||theta||^2/2 tests without a ridge. No threshold is proven for these LLRs.

    An arm's estimated mean is 1/(1 + exp(-phi_k . theta_hat)), not the average of its
    rewards. Means and levels are those of rewards, from 0 to 1. Directions of `HalfSpaces`
    and items are compared by y . theta.

    Args:
        ridge: of the penalty, above 0.

    Raises:
        ArgumentError: ridge is no such number.
    """

    ridge: float = 1e-3
    name: ClassVar[str] = "logistic"
    structures: ClassVar[tuple[str, ...]] = ("linear", "unstructured")
    slack: ClassVar[bool] = False
    low: ClassVar[float] = 0.0  # the range of means
    high: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        ridge = checks.real("ridge", self.ridge, low=0, open=True)
        object.__setattr__(self, "ridge", ridge)

    def law(self) -> str:
        return "no threshold is proven for the likelihood ratios of logistic rewards"

    def mean(self, scores: np.ndarray) -> np.ndarray:
        """1/(1 + exp(-scores))."""
        numbers: Any = jnp if isinstance(scores, Array) else np
        small = numbers.exp(-numbers.abs(scores))
        return numbers.where(scores >= 0, 1, small) / (1 + small)

    def link(self, means: np.ndarray) -> np.ndarray:
        """log(means/(1 - means))."""
        if np.any((means <= 0) | (means >= 1)):
            raise ArgumentError("theta", means, "means above 0 and below 1")
        return np.log(means) - np.log1p(-means)

    def check(self, instance: "Instance") -> None:
        scores = np.sum(instance.arms * instance.theta[..., None, :], -1)
        if np.any(np.abs(scores) > _LARGEST_SCORE):
            allowed = f"a theta with phi_k . theta from -{_LARGEST_SCORE:g} to {_LARGEST_SCORE:g}"
            raise ArgumentError("theta", instance.theta, allowed)

    check_rewards = Bernoulli.check_rewards  # type: ignore[assignment]
    draw = Bernoulli.draw  # type: ignore[assignment]

    def nature(self, instance: "Instance") -> np.ndarray:
        """The means, [I, K]."""
        return np.atleast_2d(instance.means)

    def space(self, lanes: LaneOps, features: Array, constants: Any) -> LinearContext:
        return LinearContext(lanes, features, constants)

    def start(
        self, space: LinearContext, problem: Problem, tables: tuple, rewards: Array
    ) -> Statistics:
        b = rewards.shape[1:]
        t = jnp.full(b, rewards.shape[0], jnp.int32)
        theta = jnp.zeros((space.features.shape[1], *b), rewards.dtype)
        counts, go = jnp.ones_like(rewards), jnp.ones(b, bool)
        return self._fitted(space, t, counts, rewards, theta, go)

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> Statistics:
        """Newton steps go on from the last estimate."""
        stats, space = seen.stats, seen.space
        assert stats.reward_sums is not None and stats.theta_hat is not None
        chosen = (index_like(stats.means) == arm) & go
        t, counts = stats.t + go.astype(jnp.int32), stats.counts + chosen.astype(stats.means.dtype)
        ones = stats.reward_sums + jnp.where(chosen, reward, 0)
        return self._fitted(space, t, counts, ones, stats.theta_hat, go)

    def _fitted(
        self, space: Any, t: Array, counts: Array, ones: Array, theta: Array, go: Array
    ) -> Statistics:
        """The statistics of these counts and sums, fitted from theta [d] on where `go` holds."""
        zeros, prior = counts - ones, jnp.zeros_like(theta)
        fit = partial(least, space, lambda p, q: zeros * p - ones * q, counts, self.ridge)
        theta = fit(prior, theta, go)
        means = sides(space.over_arms(theta))[0]
        return Statistics(t=t, counts=counts, means=means, reward_sums=ones, theta_hat=theta)

    def with_pending(
        self, space: LinearContext, entered: Statistics, ahead: Statistics, pull: Any = None
    ) -> Statistics:
        """theta_hat stays; of pending rewards the fit's own means are counted."""
        now: Any = super().with_pending(space, entered, ahead, pull)
        assert entered.reward_sums is not None
        waits = jnp.any(now.counts != entered.counts, 0)
        sums = jnp.where(waits, now.counts * now.means, entered.reward_sums)
        return dataclasses.replace(now, reward_sums=sums)

    def evidence(self, space: LinearContext, stats: Statistics, shape: Pieces) -> Evidence:
        assert stats.theta_hat is not None and stats.reward_sums is not None
        theta, ones = stats.theta_hat, stats.reward_sums
        p, q = sides(space.over_arms(theta))
        slopes = ones * q - (stats.counts - ones) * p
        transposed = jnp.swapaxes(space.features, 0, 1)
        slope = space.lanes.dot(transposed, slopes, space.features) - self.ridge * theta
        return LogisticEvidence(space, shape, theta, stats.counts, slope, self.ridge)

    def truth(self, features: Any, theta: Array, scales: Any, pieces: Pieces) -> Evidence:
        assert features is not None and isinstance(pieces, HalfSpaces)
        return LogisticEvidence.at_truth(features, theta, pieces)


def sides(scores: Array) -> tuple[Array, Array]:
    """The probabilities of 1 and of 0, each without cancellation; any shape."""
    small = jnp.exp(-jnp.abs(scores))
    large = 1 / (1 + small)
    small = small * large
    positive = scores >= 0
    return jnp.where(positive, large, small), jnp.where(positive, small, large)


def divergence(x: Array, y: Array) -> Array:
    """d(x, y), of the means at scores x and y: any shape.

    log(1 + p (exp(h) - 1)) - p h, h = y - x, p the probability of 1 at x; or that of 0, with -h.
    """
    p, q = sides(x)
    share, h = jnp.where(p <= q, p, q), jnp.where(p <= q, y - x, x - y)
    return jnp.maximum(jnp.log1p(share * jnp.expm1(h)) - share * h, 0)


def forces(p: Array, q: Array, p_hat: Array, q_hat: Array) -> Array:
    """p - p_hat, the derivative of d(x, y) by y: from the smaller probabilities."""
    return jnp.where(p > q, q_hat - q, p - p_hat)


def largest_curvature(scores: Array) -> Array:
    """tanh(x/2)/(2 x), the least b with d(x, y) <= b (y - x)^2/2. (Jaakkola & Jordan 2000)"""
    near = jnp.abs(scores) < 1e-3
    apart = jnp.where(near, 1, scores)
    return jnp.where(near, 0.25 - scores**2 / 48, jnp.tanh(apart / 2) / (2 * apart))


def ratio(a: Array, b: Array) -> Array:
    """a/b; 1 where b is 0."""
    return jnp.where(b != 0, a / jnp.where(b != 0, b, 1), 1)


def least(
    space: LinearContext, slope: Callable[[Array, Array], Array], weights: Array, ridge: float,
    centre: Array, theta: Array, go: Array, side: tuple[Array, Array] | None = None,
) -> Array:  # fmt: skip
    """The least point of a sum over the arms plus ridge ||theta - centre||^2/2: [d].

    Args:
        slope: the derivatives of the sum by the scores, [K], from the probabilities of 1 and 0.
        weights: the sum's curvature by score k is weights_k p_k (1 - p_k), [K].
        theta: where to start, [d]; it stays where `go` [] does not hold.
        side: y [d] and c []: only theta with y . theta = c. The first step goes there.
    """
    lanes, features = space.lanes, space.features
    transposed = jnp.swapaxes(features, 0, 1)
    enough = float(jnp.finfo(theta.dtype).eps) ** 0.375  # a step squares what is left

    def of_scores(scores: Array) -> tuple[Array, Array]:
        p, q = sides(scores)
        return slope(p, q), weights * (p * q)

    def step(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        n, theta, scores, left = carry
        slopes, curvatures = lanes.materialize(of_scores, scores)
        gradient = lanes.dot(transposed, slopes, features) + ridge * (theta - centre)
        squares = jnp.sum(features**2, 1)
        squares = squares if squares.ndim == curvatures.ndim else squares[:, None]
        more = ridge + LEAST_CURVATURE * jnp.sum(curvatures * squares, 0)
        inverse = weighted(space, curvatures, more).v_inv
        move = -lanes.symmetric_dot(inverse, gradient)
        if side is not None:
            y, c = side
            image = lanes.symmetric_dot(inverse, y)
            move = move + image * ratio(c - jnp.sum(y * (theta + move), 0), jnp.sum(y * image, 0))
        moves = space.over_arms(move)
        far = lanes.max(jnp.abs(moves))
        share = ratio(jnp.log1p(far), far)
        if side is not None:
            share = jnp.where(n == 0, 1, share)
        share = jnp.where(left, share, 0)
        return n + 1, theta + share * move, scores + share * moves, left & (far > enough)

    def more(carry: tuple[Array, ...]) -> Array:
        return (carry[0] < STEPS) & jnp.any(carry[3])

    carry = jnp.int32(0), theta, space.over_arms(theta), go
    return jax.lax.while_loop(more, step, carry)[1]


@pytree
class LogisticEvidence(Evidence):
    """The evidence about pieces, under counts or weights.

    With a ridge a value is never above the LLR, wherever the Newton steps end: on the boundary
    the penalised log-likelihood exceeds its value at a point by |slope|^2/(2 ridge) at most.
    """

    closed_form = False
    space: LinearContext
    shape: Pieces
    theta_hat: Array  # [d]
    weights: Array  # [K] pulls, or weights over the costs, positive
    slope: Array | None  # [d] of the penalised log-likelihood at theta_hat; None: of weights
    ridge: float = dataclasses.field(default=0.0, metadata={"static": True})
    costs: Array | None = None  # [K], positive; None: all are 1

    def about(self, shape: Pieces) -> "LogisticEvidence":
        return dataclasses.replace(self, shape=shape)

    @staticmethod
    def at_truth(features: Array, theta: Array, pieces: HalfSpaces) -> "LogisticEvidence":
        """The evidence of one run under even weights, for features [K, d] of any rank."""
        frame = Coordinates.of(features)
        exists = jnp.any(pieces.y != 0, 1)
        shape = HalfSpaces(product(pieces.y, frame.map), pieces.c, exists)
        space = LinearContext(PLAIN, product(features, frame.map))
        even = jnp.full(features.shape[0], 1 / features.shape[0], features.dtype)
        theta = frame.sizes * product(frame.basis, theta)  # scores stay
        return LogisticEvidence(space, shape, theta, even, None)

    def with_derivatives(self) -> "LogisticEvidence":
        sides = self.space.half_spaces(self._of_scores)
        truth = self.at_truth(self.space.features, self.theta_hat, sides)
        return dataclasses.replace(truth, costs=self.costs)

    @property
    def scores(self) -> Array:
        return self.space.over_arms(self.theta_hat)

    @property
    def means(self) -> Array:  # type: ignore[override]
        return sides(self.scores)[0]

    @property
    def _of_scores(self) -> Any:
        """The pieces, with the score of a level."""
        shape: Any = self.shape
        if shape.level is None:
            return shape
        return dataclasses.replace(shape, level=math.log(shape.level) - math.log1p(-shape.level))

    def outside(self) -> Array:
        return self.space.margin(self._of_scores, self.scores, self.theta_hat)

    def weighted(self, weights: Array) -> "LogisticEvidence":
        return dataclasses.replace(self, weights=self.per_cost(weights), slope=None, ridge=0.0)

    def metric(self) -> SquareDesign:
        """The metric of squares above the divergences; see `largest_curvature`."""
        return weighted(self.space, self.weights * largest_curvature(self.scores), self.ridge)

    def above(self, metric: SquareDesign) -> Array:
        """An upper bound on every value, margin^2/(2 ||y||^2) in the metric: [Q]."""
        about = self.space, self._of_scores, metric, self.scores, self.theta_hat
        squares = LinearEvidence.of(*about)
        return squares.values() * (1 + _ROUNDING)

    def _near(self, metric: SquareDesign, piece: Array) -> Array:
        """A tighter bound on the value of one piece []: D at its closest point in the metric."""
        y, c = self._side(piece)
        image = self.space.lanes.symmetric_dot(metric.v_inv, y)
        far = jnp.sum(y * self.theta_hat, 0) - c
        moved = -image * ratio(jnp.maximum(far, 0), jnp.sum(y * image, 0))
        return self._cost(moved, self.scores + self.space.over_arms(moved)) * (1 + _ROUNDING)

    def _cost(self, moved: Array, scores: Array) -> Array:
        """D at theta_hat + moved [d], where the scores [K] are these: []."""
        value = self.space.lanes.sum(self.weights * divergence(self.scores, scores))
        if self.slope is None:
            return value
        value = value + self.ridge / 2 * jnp.sum(moved**2, 0)
        return value - jnp.sum(self.slope * moved, 0)

    def values(self) -> Array:
        lanes = self.theta_hat.shape[1:]

        def value(piece: Array) -> Array:
            return self._value(*self._side(jnp.broadcast_to(piece, lanes)))

        return jax.lax.map(value, jnp.arange(len(self.shape.exists), dtype=jnp.int32))

    def derivatives(self) -> Bent:
        """H_p with two derivatives, for half-spaces and weights."""
        assert isinstance(self.shape, HalfSpaces)
        value, slopes, bend = jax.vmap(self._bent)(self.shape.y, self.shape.c)
        live = self.shape.exists & (self.outside() > 0)
        slopes = jnp.where(live[:, None], slopes, 0).T
        bend = jnp.where(live[:, None, None], bend, 0)
        return Bent(jnp.where(live, value, 0), slopes, jnp.moveaxis(bend, 0, 1)).by(self.costs)

    def _bent(self, y: Array, c: Array) -> tuple[Array, Array, Array]:
        """H_p(w) of {y . theta <= c}, its slope [K] and `Bent.bend` [K, d].

        The Newton steps are of constants. One more, with a constant matrix, gives the point its
        derivatives in theta, features and the half-space. The value is D less nu^2, nu the Newton
        decrement where the steps end: at most H_p if nu r <= 1/2, r the largest change of a score
        by a move of length 1. (Bach 2010, Lemma 1)
        """
        features, hat = self.space.features, self.scores
        fixed, side, offset = jax.lax.stop_gradient((self, y, c))
        start = fixed._closest(side, offset)
        p, q = sides(fixed.space.over_arms(start))
        phi, curvature = fixed.space.features, fixed.weights * p * q
        matrix = product(phi.T * curvature[None], phi)
        eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
        root = factor_inverse(matrix + LEAST_CURVATURE * jnp.trace(matrix) * eye)
        z = product(root, side)
        unit = z * ratio(jnp.ones_like(offset), jnp.sqrt(jnp.sum(z * z)))
        inner = product(eye - unit[:, None] * unit[None], root)  # of moves along the boundary
        force = forces(*sides(product(features, start)), *sides(hat))
        slope = product(features.T, self.weights * force)
        pull = jnp.sum(z * product(root, slope))
        slope = slope - y * jax.lax.stop_gradient(ratio(pull, jnp.sum(z * z)))
        off = ratio(c - jnp.sum(y * start), jnp.sum(z * z))
        theta = start - product(inner.T, product(inner, slope)) + product(root.T, z) * off
        slopes = divergence(hat, product(features, theta))
        bend = jax.lax.stop_gradient(force)[:, None] * product(phi, inner.T)
        decrement = jnp.sum(product(fixed.weights, bend) ** 2)
        return jnp.maximum(jnp.sum(slopes * self.weights) - decrement, 0), slopes, bend

    def _forces(self, p: Array, q: Array) -> Array:
        """The slopes of D by the scores, where the probabilities of 1 and 0 are p and q: [K]."""
        return self.weights * forces(p, q, *sides(self.scores))

    def refuted(self, beta: Array) -> Array:
        return self._tested(beta, False)

    def all_refuted(self, beta: Array) -> Array:
        return ~self.space.lanes.any(self.shape.exists & ~self._tested(beta, True))

    def _tested(self, beta: Array, all_or_none: bool) -> Array:
        """Which pieces have values above beta []: [Q] bool.

        Only those whose upper bound exceeds beta are solved, in the order of these bounds; with
        `all_or_none` until the first that is not above beta.
        """
        metric, lanes = self.metric(), self.space.lanes
        largest = float(jnp.finfo(self.weights.dtype).max)
        above = jnp.where(self.shape.exists, self.above(metric), jnp.inf)
        left = self.shape.exists & (above > beta)
        if all_or_none:
            least = lanes.argmin(above)
            tighter = jnp.minimum(lanes.take(above, least), self._near(metric, least))
            left = left & (tighter > beta)

        def test(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            left, above_beta = carry
            piece = lanes.argmin(jnp.where(left, jnp.minimum(above, largest), jnp.inf))
            here = left & (index_like(left) == piece)
            exceeds = self._value(*self._side(piece), lanes.any(left)) > beta
            left = left & ~here
            return left & exceeds if all_or_none else left, above_beta | (here & exceeds)

        none = jnp.zeros_like(left)
        return jax.lax.while_loop(lambda carry: jnp.any(carry[0]), test, (left, none))[1]

    def gradient(self, piece: Array) -> Array:
        theta = self._closest(*self._side(piece))
        return self.per_cost(divergence(self.scores, self.space.over_arms(theta)))

    def _side(self, piece: Array) -> tuple[Array, Array]:
        y, c = self.space.side(self._of_scores, piece)
        return y, c + jnp.zeros_like(self.theta_hat[0])

    def _closest(self, y: Array, c: Array, go: Array | bool = True) -> Array:
        """The point of {y . theta <= c} with the least D: [d]; theta_hat if that is inside."""
        outside = jnp.sum(y * self.theta_hat, 0) > c
        hat, go = self.theta_hat, outside & go
        return least(self.space, self._forces, self.weights, self.ridge, hat, hat, go, (y, c))

    def _value(self, y: Array, c: Array, go: Array | bool = True) -> Array:
        """The least D over {y . theta <= c}: []; 0 where `go` [] bool does not hold."""
        theta = self._closest(y, c, go)
        scores, moved = self.space.over_arms(theta), theta - self.theta_hat
        value = self._cost(moved, scores)
        if self.slope is None:
            return value
        slopes = self._forces(*sides(scores))
        transposed = jnp.swapaxes(self.space.features, 0, 1)
        slopes = self.space.lanes.dot(transposed, slopes, self.space.features)
        slopes = slopes + self.ridge * moved - self.slope
        along = slopes - y * ratio(jnp.sum(y * slopes, 0), jnp.sum(y * y, 0))
        value = jnp.maximum(value - jnp.sum(along**2, 0) / (2 * self.ridge), 0)
        return jnp.where(jnp.any(moved != 0, 0), value, 0)
