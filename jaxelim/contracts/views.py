"""Arguments of the contracts' methods: statistics, estimates, evidence, snapshots, views.

A run's own axes come first, lanes last; shapes in docstrings leave the lanes out.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import looks
from jaxelim.contracts.pieces import Pairs, Pieces
from jaxelim.errors import undefined
from jaxelim.lanes import LaneOps, Tree, named_pytree, pytree

if TYPE_CHECKING:
    from jaxelim.contracts import Family, PieceSet, Problem
    from jaxelim.evidence.linear import LinearEvidence

_STATIC = {"static": True}


@pytree
class ArmContext:
    """The primitives and arrays that are fixed over a run. A family may keep more."""

    lanes: LaneOps
    features: Array  # [K, d], or [K, d, B] where every lane has its own instance
    constants: Any = ()  # the problem's arrays, from its `constants`
    _: dataclasses.KW_ONLY
    prices: Array | None = None  # [K] a pull's cost, of mean 1; None: samples are counted
    transposed: Array | None = None  # [d, K] the shared features, for steps in one kernel

    def over_arms(self, y: Array) -> Array:
        """phi_k . y for every k: y [d] or [d, m] -> [K] or [K, m]."""
        return self.lanes.dot(self.features, y, self.transposed)


@named_pytree
class Statistics:
    """The statistics of a run after t samples. A family may keep more, in a subclass."""

    t: Array  # [] int32
    counts: Array  # [K] pulls of each arm, whole numbers in the floating type
    means: Array  # [K] the estimates
    reward_sums: Array | None  # [K]; None if neither the family nor the rule reads them
    theta_hat: Array | None = None  # [d] the estimate of theta; None where it is not kept
    stacks: Array | None = None  # [K] the number of rewards that arms have; None: no end

    @property
    def used_up(self) -> Array | None:
        """Which arms have no reward left, so that their estimates are their means: [K] bool."""
        return None if self.stacks is None else self.counts >= self.stacks

    @property
    def moments(self) -> Array | None:
        """What the family's `log_mixture` reads but counts and means: [K, ..]; or None."""
        return None

    def of_one_run(self) -> "Statistics":
        """The statistics without what is only right for many lanes, such as caches."""
        return self


@pytree
class Estimate:
    """What a problem reads."""

    lanes: LaneOps  # argmax, take, ...: for one run and for many
    means: Array  # [K]
    theta_hat: Array | None = None  # [d]; kept if the problem has `uses_theta`
    constants: Tree = ()  # the problem's arrays, from its `constants`


class Evidence:
    """The contract of evidence: the LLRs of one answer's pieces, at counts or weights."""

    space: ArmContext
    shape: Pieces
    means: Array  # [K] the estimates
    has_matrix: bool = False  # whether a design that is no diagonal takes rank-one updates
    closed_form: bool = True  # whether allocations of signs and best arm have one
    costs: Array | None = None  # [K] what a unit of precision costs, positive; None: 1

    def outside(self) -> Array:
        """How far the estimates lie outside each piece, negative inside: [Q]."""
        shape: Any = self.shape  # not half-spaces, whose evidence has its own
        return shape.outside(self.space.lanes, self.means)

    def values(self) -> Array:
        """The LLR of every piece at counts, or H_p at weights: [Q]. (Paper, section 2)"""
        raise undefined(self, "values()")

    def refuted(self, beta: Array) -> Array:
        """Whether each value exceeds beta []: [Q] bool."""
        return self.values() > beta

    def all_refuted(self, beta: Array) -> Array:
        """Whether the values of all pieces exceed beta []: [] bool."""
        values = jnp.where(self.shape.exists, self.values(), jnp.inf)
        return self.space.lanes.min(values) > beta

    def gradient(self, piece: Array) -> Array:
        """dH_piece/dw_k for every arm k: [K]."""
        raise undefined(self, "gradient(piece)")

    def per_cost(self, x: Array) -> Array:
        """x_k/c_k, for x [K]: [K]."""
        return x if self.costs is None else x / self.costs

    def priced(self, prices: Array) -> "Evidence":
        """The evidence whose weights are shares of cost, of w_k/prices_k pulls: prices [K]."""
        costs = prices if self.costs is None else self.costs * prices
        return dataclasses.replace(self, costs=costs)  # type: ignore[type-var]

    def derivatives(self) -> Any:
        """H_p with two derivatives, for one run, as `jaxelim.evidence.half_spaces` has them."""
        raise undefined(self, "derivatives()")

    def with_derivatives(self) -> "Evidence":
        """The same pieces of one run under uniform weights, in a form with `derivatives`."""
        raise undefined(self, "with_derivatives()")

    def weighted(self, weights: Array) -> "Evidence":
        """The same pieces under weights w [K], positive, of any sum; no ridge."""
        raise undefined(self, "weighted(weights)")

    def about(self, shape: Pieces) -> "Evidence":
        """The evidence about other pieces, from the same samples or weights."""
        raise undefined(self, "about(shape)")


@named_pytree
class Check:
    """How pieces are tested at one t."""

    mixture: Any = dataclasses.field(default=None, metadata=_STATIC)  # None: beta is compared
    live: Array | None = None  # [] bool: the run is not over, and may look; None: all may
    since: Array | None = None  # [] int32: samples at the last check; None: one fewer
    log_e: Array | None = None  # `looks.of_every_answer` at this t, if a run records it


@named_pytree
class Snapshot:
    """What elimination and stopping rules see at one t."""

    family: "Family" = dataclasses.field(metadata=_STATIC)
    problem: "Problem" = dataclasses.field(metadata=_STATIC)
    space: ArmContext
    stats: Statistics
    answer: Tree  # the empirical answer, in the problem's own form
    shape: Any  # Pairs or HalfSpaces: of its pieces
    evidence: Evidence  # about them
    check: Check = Check()

    @staticmethod
    def of(
        family: "Family", problem: "Problem", space: ArmContext, stats: Statistics,
        check: Check = Check(),  # noqa: B008
    ) -> "Snapshot":  # fmt: skip
        """Compute all that is read at one t; the arguments are fields of the result."""
        seen = Estimate(space.lanes, stats.means, stats.theta_hat, space.constants)
        answer = problem.answer(seen)
        shape = problem.shape(seen, answer)
        return Snapshot(
            family=family, problem=problem, space=space, stats=stats, answer=answer, shape=shape,
            evidence=family.evidence(space, stats, shape), check=check,
        )  # fmt: skip

    def about(self, shape: Pieces) -> "Snapshot":
        """The snapshot with other pieces than those of the answer, such as with another slack."""
        evidence = self.evidence.about(shape)
        return dataclasses.replace(self, shape=shape, evidence=evidence).with_check(log_e=None)

    def with_check(self, **changes: Any) -> "Snapshot":
        """The snapshot with some fields of its check replaced."""
        return dataclasses.replace(self, check=dataclasses.replace(self.check, **changes))

    def refuted(self, beta: Array, among: Array) -> Array:
        """Those of the pieces `among` [Q] bool that are refuted at level beta []: [Q] bool."""
        mixture = self.check.mixture
        level = beta if mixture is None else mixture.gate(beta, self)
        found = self.shape.exists & self.evidence.refuted(level)
        if mixture is not None:
            few: Any = dataclasses.replace(self.shape, exists=among & found)
            few = dataclasses.replace(self, shape=few)
            wanted = looks.may_look(few) & self.lanes.any(few.shape.exists)
            found = looks.of_answer(few, wanted, level=beta) > beta
        return found if self.decided is None else found | self.decided

    def all_refuted(self, beta: Array) -> Array:
        """Whether all pieces of the answer are refuted at level beta []: [] bool."""
        seen, mixture = self.undecided, self.check.mixture
        if mixture is None:
            return seen.evidence.all_refuted(beta)
        passes = seen.evidence.all_refuted(mixture.gate(beta, seen))
        log_e = looks.of_answer(seen, looks.may_look(seen) & passes, level=beta, every=True)
        return seen.lanes.min(jnp.where(seen.shape.exists, log_e, jnp.inf)) > beta

    @property
    def decided(self) -> Array | None:
        """Pieces that known means refute, of used-up arms or one and a level: [Q] bool; or None."""
        known, shape = self.stats.used_up, self.shape
        alone = getattr(self.family, "form", "diagonal") == "diagonal"  # arms share no theta
        if known is None or self.theta_hat is not None or not (alone and isinstance(shape, Pairs)):
            return None
        a = b = known
        if not shape.signs:
            a, b = shape.ends(self.lanes, shape.with_reference(known, True))
        # Of an answer's own pieces all lie outside; of others, such as those of flipped signs, not.
        return shape.exists & shape.flat(a & b) & (shape.outside(self.lanes, self.means) >= 0)

    @property
    def undecided(self) -> "Snapshot":
        """The snapshot without the pieces that are `decided`."""
        decided, shape = self.decided, self.shape
        if decided is None:
            return self
        left = dataclasses.replace(shape, exists=shape.exists & ~decided, count=None)
        return dataclasses.replace(self.about(left), check=self.check)

    @property
    def lanes(self) -> LaneOps:
        """argmax, argmin, min, max, sum, take, row over arms: for one run and for many."""
        return self.space.lanes

    @property
    def means(self) -> Array:
        """The estimates: [K]."""
        return self.stats.means

    @property
    def theta_hat(self) -> Array | None:
        """The estimate of theta, [d]; None where it is not kept."""
        return self.stats.theta_hat

    @property
    def estimate(self) -> Estimate:
        """What the problem reads."""
        return Estimate(self.lanes, self.means, self.theta_hat, self.space.constants)

    @property
    def public(self) -> Array:
        """The public form of the answer: [K] bool."""
        return self.problem.public(self.estimate, self.answer)


@named_pytree
class Reduced:
    """What elimination at sampling has left."""

    elimination: Any = dataclasses.field(metadata=_STATIC)  # or None
    pieces: "PieceSet | Tree"

    def active(self, seen: Snapshot) -> tuple[Array, Array]:
        """The pieces of a snapshot for sampling, [Q] bool, and their number, [] int32."""
        rule, pieces = self.elimination, self.pieces
        if rule is None:
            return seen.shape.exists, seen.shape.total()
        if rule.shared:
            return pieces.active(seen), pieces.active_count(seen)
        active = rule.active(seen, pieces)
        return active, seen.lanes.sum(active)


@named_pytree
class View(Snapshot):
    """What a sampling rule reads: counts of all pulls, and estimates of rewards that entered."""

    active: Array  # [Q] bool: the pieces for sampling
    active_count: Array  # [] int32: their number
    reduced: Reduced  # which gives `active`
    delta: Array  # []; None where the rule's `reads` lack it
    beta: Array  # []: the threshold at (t, delta), t as of the view; None likewise
    prepared: Tree  # the result of the rule's `prepare`
    chance: Array | None  # []: uniform on [0, 1), from (seed, run, t); see `Traits.reads`
    key: Array | None = None  # []: a random key, from (seed, run, t); see `Traits.reads`
    # Of initial samples; the rule's first choice is at t = start + 1.
    start: int = dataclasses.field(metadata=_STATIC)

    @property
    def t(self) -> Array:
        """The index of the next sample, samples so far plus one: [] int32."""
        return self.stats.t + 1

    @property
    def counts(self) -> Array:
        """Pulls so far, pending ones too, whole numbers in the floating type: [K]."""
        return self.stats.counts

    @property
    def reward_sums(self) -> Array | None:
        """The sums of the rewards, [K]; None unless the rule `reads` them."""
        return self.stats.reward_sums

    @property
    def priced(self) -> Evidence:
        """The evidence whose weights are shares of cost, for instances that have costs."""
        prices = self.prices
        return self.evidence if prices is None else self.evidence.priced(prices)

    @property
    def prices(self) -> Array | None:
        """c_k, what a pull of each arm costs, of mean 1: [K]; None: samples are counted."""
        prices = self.space.prices
        if prices is None:
            return None
        wide = prices if self.means.ndim == 1 else prices[:, None]
        return jnp.broadcast_to(wide, self.means.shape)

    def per_price(self, x: Array) -> Array:
        """x_k/c_k for x [K]: [K]; x where there are no costs."""
        prices = self.prices
        return x if prices is None else x / prices

    @property
    def llr(self) -> Array:
        """The LLR of the empirical answer's pieces: [Q]."""
        return self.evidence.values()

    @property
    def features(self) -> Array:
        """[K, d]."""
        return self.space.features

    @property
    def time(self) -> Array:
        """t as a float: []."""
        return self.t.astype(self.means.dtype)

    @property
    def linear(self) -> "LinearEvidence":
        """The evidence of linear Gaussian rewards: the design, margins and directions."""
        return self.evidence  # type: ignore[return-value]
