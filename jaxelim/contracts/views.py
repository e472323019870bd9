"""What the contracts' methods read: statistics, estimates, evidence, a snapshot, a rule's view.

Axis letters: K arms, d dimensions, Q pieces of the empirical answer, B lanes (runs side by side).
A run's own axes come first, lanes last; shapes in docstrings leave the lanes out.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
from jax import Array

from jaxelim.contracts.shapes import Shape
from jaxelim.lanes import ArmBlock, LaneOps

if TYPE_CHECKING:
    from jaxelim.contracts import Family, PieceSet, Problem
    from jaxelim.families.linear_evidence import LinearEvidence

Tree = Any
_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ArmContext:
    """What is fixed over a run: the primitives and the features.

    `cancellation_safe` (static): some arms are so near each other, for the conditioning that V can
    reach, that squared distances are formed from y = phi_i - phi_j."""

    lanes: LaneOps
    features: Array  # [K, d], or [K, d, B] where every lane has its own instance
    constants: Any = ()  # the problem's own arrays, as its `constants` gives them
    cancellation_safe: bool = dataclasses.field(default=False, metadata={"static": True})

    def feature(self, k: Array | ArmBlock) -> Array:
        """phi_k, [d]."""
        return self.lanes.row(self.features, k)

    def differences(self, i: Array, many: bool) -> Array:
        """phi_i - phi_k for every k, [K, d]; `many`: with an axis of lanes, of length 1 where it is the same in all."""
        y, features = self.feature(i), self.features
        if many:
            y, features = (x if x.ndim == n else x[..., None] for x, n in ((y, 2), (features, 3)))
        return y[None] - features


def undefined(thing: Any, method: str) -> TypeError:
    """What a method of a contract raises where it is left out."""
    return TypeError(f"{type(thing).__name__} does not define {method}")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics:
    """What a run has seen after t samples. A family may keep more, in a class of its own."""

    t: Array  # [] int32
    counts: Array  # [K] pulls of each arm, whole numbers in the floating type
    means: Array  # [K] the estimates
    reward_sums: Array | None  # [K]; None where neither the family nor the rule reads them

    @property
    def estimated_theta(self) -> Array | None:
        """The estimate of theta, [d]; None where it is not kept."""
        return None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a problem reads: means, and what its answers depend on besides."""

    lanes: LaneOps  # argmax, take, ...: right for one run and fast for many
    means: Array  # [K]
    theta_hat: Array | None = None  # [d]; kept where the problem says `uses_theta`
    constants: Tree = ()  # what the problem's `constants` gave


class Evidence:
    """What the samples, or an allocation, say about the pieces of one answer."""

    space: ArmContext

    def values(self) -> Array:
        """The LLR of every piece at counts, H_p at weights: [Q]. (Paper, section 2)"""
        raise undefined(self, "values()")

    def refuted(self, beta: Array) -> Array:
        """Whether each value exceeds beta []: [Q] bool."""
        return self.values() > beta

    def gradient(self, piece: Array) -> Array:
        """dH_piece/dw_k for every arm k: [K]."""
        raise undefined(self, "gradient(piece)")


class _Seen:
    """What a snapshot and a view have in common."""

    problem: "Problem"
    space: ArmContext
    means: Array
    theta_hat: Array | None
    answer: Tree

    @property
    def lanes(self) -> LaneOps:
        """argmax, argmin, min, max, sum, take, row over arms: right for one run, fast for many."""
        return self.space.lanes

    @property
    def estimate(self) -> Estimate:
        """What the problem reads."""
        return Estimate(self.lanes, self.means, self.theta_hat, self.space.constants)

    @property
    def public(self) -> Array:
        """The public form of the answer: [K] bool."""
        return self.problem.public(self.estimate, self.answer)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot(_Seen):
    """What elimination and stopping rules see at one t."""

    family: "Family" = dataclasses.field(metadata=_STATIC)
    problem: "Problem" = dataclasses.field(metadata=_STATIC)
    space: ArmContext
    stats: Statistics
    answer: Tree  # the empirical answer, in the problem's own form
    shape: Shape  # of its pieces
    evidence: Evidence  # about them

    @staticmethod
    def of(family: "Family", problem: "Problem", space: ArmContext, stats: Statistics) -> "Snapshot":
        """All that is read at one t, computed once."""
        seen = Estimate(space.lanes, stats.means, stats.estimated_theta, space.constants)
        answer = problem.answer(seen)
        shape = problem.shape(seen, answer)
        evidence = family.evidence(space, stats, shape)
        return Snapshot(
            family=family, problem=problem, space=space, stats=stats,
            answer=answer, shape=shape, evidence=evidence,
        )  # fmt: skip

    @property
    def means(self) -> Array:
        """The estimates: [K]."""
        return self.stats.means

    @property
    def theta_hat(self) -> Array | None:
        """The estimate of theta, [d]; None where it is not kept."""
        return self.stats.estimated_theta


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class View(_Seen):
    """What a sampling rule sees when it is asked for an arm."""

    family: "Family" = dataclasses.field(metadata=_STATIC)
    problem: "Problem" = dataclasses.field(metadata=_STATIC)
    elimination: Any = dataclasses.field(metadata=_STATIC)  # at sampling, or None
    space: ArmContext
    t: Array  # [] int32: the index of the sample about to be drawn, samples so far plus one
    counts: Array  # [K]: pulls before that sample, whole numbers in the floating type
    means: Array  # [K]: the estimates
    theta_hat: Array | None  # [d]; None unless kept
    reward_sums: Array | None  # [K]; None unless the rule says `uses_rewards`
    answer: Tree  # the empirical answer, in the problem's own form
    shape: Shape  # of its pieces
    evidence: Evidence  # about them, at the counts
    active: Array  # [Q] bool: the pieces that sampling looks at
    active_count: Array  # [] int32: how many those are
    piece_set: "PieceSet | Tree"  # the set that elimination has left; `active` is read from it
    delta: Array  # []
    beta: Array  # []: the threshold at (t, delta), t as above
    prepared: Tree  # what the rule's `prepare` made on the host
    chance: Array | None  # []: uniform on [0, 1), from (seed, run, t); see `Traits.uses_chance`

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
        evidence: Any = self.evidence
        return evidence

    def at(self, means: Array) -> "View":
        """The same for other means [K]: their answer, its pieces, and which of them are active.

        `evidence` stays that of the empirical answer."""
        view = dataclasses.replace(self, means=means, theta_hat=None)
        answer = self.problem.answer(view.estimate)
        shape = self.problem.shape(view.estimate, answer)
        view = dataclasses.replace(view, answer=answer, shape=shape)
        active, active_count = pieces_for_sampling(view, self.elimination, self.piece_set)
        return dataclasses.replace(view, active=active, active_count=active_count)


def pieces_for_sampling(
    seen: Snapshot | View, elimination: Any, piece_set: Any
) -> tuple[Array, Array]:
    """The pieces that sampling looks at, [Q] bool, and how many they are, [] int32."""
    if elimination is None:
        return seen.shape.exists, seen.shape.total()
    if elimination.shared:
        return piece_set.active(seen), piece_set.active_count(seen)
    active = elimination.active(seen, piece_set)
    return active, seen.lanes.sum(active)
