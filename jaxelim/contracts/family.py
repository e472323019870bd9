"""The contracts of a reward family and of a source of rewards."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.pieces import Interval, Pieces, pairs_of
from jaxelim.contracts.proofs import states
from jaxelim.contracts.views import ArmContext, Evidence, Snapshot, Statistics, Tree, View
from jaxelim.errors import ArgumentError, UnsupportedError, undefined
from jaxelim.lanes import ArmBlock, LaneOps, index_like
from jaxelim.mixtures import log_mean_exp
from jaxelim.mixtures.pieces import Stat

if TYPE_CHECKING:
    from jaxelim.contracts import Problem
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance
    from jaxelim.mixtures import Grid


NOISES = ("normal", "uniform", "run")
"""What a draw is given: a standard normal, a uniform on [0, 1), or a uint64 of the whole run."""


def noise_type(kind: str, dtype: Any) -> Any:
    """The type of the noise of a run in the floating type `dtype`."""
    return jnp.dtype(jnp.uint64) if kind == "run" else dtype


class Family:
    """The contract of a reward family: a frozen dataclass of settings.

    It is the model of the evidence, and draws rewards at the arms' means where an instance has
    no `Source`. Methods with an instance run on the host. The others are traced, lanes last.
    """

    name: ClassVar[str] = ""
    noise: ClassVar[str] = "uniform"  # what `draw` is given: one of `NOISES`
    structures: ClassVar[tuple[str, ...]] = ("unstructured",)
    slack: ClassVar[bool] = True  # whether the evidence knows pieces with slack
    initial_pulls: ClassVar[int] = 1  # the least number of initial pulls of each arm
    items: int | None = None  # the most items that arms have in common; None: arms have none
    ridge: float = 0.0  # of the design matrix, for a family that has one
    design: ClassVar[bool] = False  # whether `view.linear` is the evidence: it has a design
    square: ClassVar[bool] = False  # whether rewards are Gaussian, of variances that are known
    sufficient: ClassVar[int] = 0  # sums of powers that its statistics are made of; 0: more
    convex_in: ClassVar[str | None] = "mean"
    """Where `log_mixture` is convex, or "reciprocal"; None: it falls up to the estimate."""
    by_loss: ClassVar[bool] = False  # whether its evidence is made of its `first` and `loss`
    any_law: ClassVar[bool] = False  # independent rewards that it can have are all of its law
    without_replacement: ClassVar[bool] = False  # whether its e-values hold for such draws too
    optimization: str | None = None  # LLVM's level for a CPU's program; None: XLA's choice

    @property
    def linear(self) -> bool:
        """Whether arms may have features, so that the truth is a theta and not the means."""
        return "linear" in self.structures

    @property
    def scale(self) -> float:
        """The unit of rewards and means in a run."""
        return 1.0

    def has(self, method: str) -> bool:
        """Whether rules may call this method."""
        own = getattr(type(self), method, None)
        return own is not None and own is not getattr(Family, method, None)

    def law(self) -> str:
        """The law of the rewards, one of `proofs.LAWS`; or a sentence: why no proof covers them."""
        return f"no proof for rewards of {self!r} is known"

    def stated_law(self) -> str:
        """`law`, if it is known to be that of the draws: or why proofs do not cover the rewards."""
        own = states(self, "law")
        return self.law() if own else f"{type(self).__name__} states no law of its own"

    def for_arms(self, arms: int) -> Any:
        """The family for this number of arms, where its settings are those of each arm."""
        return self

    def check_arms(self, arms: "Arms") -> None:
        """Refuse arms that the settings do not fit, such as another number of them."""

    def mean(self, scores: np.ndarray) -> np.ndarray:
        """The means of arms with scores phi_k . theta, any shape; increasing. JAX or NumPy."""
        return scores

    def link(self, means: np.ndarray) -> np.ndarray:
        """Host: the scores of arms with these means, any shape: the inverse of `mean`."""
        return means

    def check(self, instance: "Instance") -> None:
        """Refuse means out of the family's range; `check_arms` has run."""

    def check_shape(self, problem: "Problem", shape: Pieces) -> None:
        """Refuse pieces without evidence, such as levels out of range, or of one arm alone."""
        if shape.candidates == 1 and not shape.signs:
            allowed = f"two arms or more: {problem!r} compares them; one arm has a level, as in "
            raise ArgumentError("arms", "one arm", allowed + "Thresholding(level)")
        # One arm against a number moves all the way to it, whatever pairs would do.
        alone = shape.signs and not self.linear
        if shape.slack and not (self.slack or alone):
            allowed = f"epsilon=0: the evidence of {self!r} knows no slack"
            raise UnsupportedError("problem", problem, allowed)
        if not self.linear and (shape.items or shape.candidates is None):
            allowed = f"pairs of arms, or of an arm and a level, for {self!r}"
            if shape.items:
                allowed += "; items need linear Gaussian rewards of one standard deviation"
            raise UnsupportedError("problem", problem, allowed)
        if shape.level is None and not shape.slack:
            return
        low, high = self._range
        most, level = high - low, shape.level
        if level is not None:
            if not low < level < high:
                allowed = f"a number inside ({low:g}, {high:g}) for {self!r}"
                raise ArgumentError("level", level, allowed)
            most = min(level - low, high - level)
        if shape.slack and not shape.slack < most:
            allowed = f"a number below {most:g} for {self!r}"
            raise ArgumentError("epsilon", problem.epsilon, allowed, "else every arm is right")

    @property
    def _range(self) -> tuple[float, float]:
        return getattr(self, "low", -np.inf), getattr(self, "high", np.inf)

    def check_rewards(self, rewards: np.ndarray) -> None:
        """Refuse recorded rewards, any shape, that the family cannot have: those out of range."""
        low, high = self._range
        bad = (rewards < low) | (rewards > high)
        self.refuse_rewards(rewards, bad, f"from {low:g} to {high:g}")

    def refuse_rewards(self, rewards: np.ndarray, bad: np.ndarray, allowed: str) -> None:
        """Refuse the rewards where `bad` holds; `allowed`: which they may be, in words."""
        if bad.any():
            note = f"{rewards[bad][0]:g} is not"
            raise ArgumentError("rewards", rewards, f"rewards {allowed} for {self!r}", note)

    def ridge_of(self, ridge: float | None, instance: "Arms") -> float | None:
        """The ridge of a run, from the caller's; refuse one that the family does not have."""
        if ridge is not None:
            raise ArgumentError("ridge", ridge, f"None: {self!r} has no ridge")
        return None

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> "Source | None":
        """Host: a source like a run's rewards, of counts and means [K]; None: the family there."""
        return None

    def settled(self, **job: Any) -> "Family":
        """The family with all that the program of a job depends on, such as a form of V^-1."""
        return self

    def plan(self) -> dict[str, Any]:
        """The family's entries in a result's `layout`."""
        return {}

    def nature(self, instance: "Instance") -> Tree:
        """What `draw` needs of the truth: numbers in NumPy arrays [instance, ..]."""
        raise undefined(self, "nature(instance)")

    def tables(self, instance: "Arms") -> Tree:
        """What else `start` needs: numbers in NumPy arrays [instance, ..]."""
        return ()

    def space(self, lanes: LaneOps, features: Array, constants: Tree) -> ArmContext:
        """The primitives and arrays that are fixed over a run."""
        return ArmContext(lanes, features, constants)

    def draw(self, lanes: LaneOps, nature: Tree, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward of an arm, [] like noise; `pull` [] int32: its number of earlier pulls."""
        raise undefined(self, "draw(lanes, nature, arm, pull, noise)")

    def start(
        self, space: ArmContext, problem: "Problem", tables: Tree, rewards: Array
    ) -> Statistics:
        """`Statistics` after one pull of each arm; rewards [K, B], tables of one instance."""
        raise undefined(self, "start(space, problem, tables, rewards)")

    def update(self, seen: Snapshot, arm: Array, reward: Array, go: Array) -> Statistics:
        """Statistics like `start`'s after one more sample where `go` [] bool holds, else as is."""
        raise undefined(self, "update(seen, arm, reward, go)")

    def with_pending(
        self, space: ArmContext, entered: Statistics, ahead: Statistics,
        pull: tuple[Array, Array] | None = None,
    ) -> Statistics:  # fmt: skip
        """What a sampling rule sees while rewards are pending: counts and t of all pulls.

        Estimates are of the rewards that have entered, sums counts times their means. What
        `Statistics.of_one_run` leaves out is not there. A family whose evidence reads more
        says here what is of which.

        Args:
            space, entered: of the run, and of the rewards that have entered.
            ahead: the last result of this method; `entered` while nothing is pending.
            pull: one more pull, whose reward is pending: its arm, [] int32, and whether
                there is one, [] bool; None: there is none.
        """
        t, counts, sums = ahead.t, ahead.counts, entered.reward_sums
        if pull is not None:
            arm, go = pull
            chosen = (index_like(counts) == arm) & go
            t, counts = t + go.astype(t.dtype), counts + chosen.astype(counts.dtype)
        if sums is not None:
            sums = sums * (counts / jnp.maximum(entered.counts, 1))
        return dataclasses.replace(entered, t=t, counts=counts, reward_sums=sums).of_one_run()

    def degenerate(self, stats: Statistics) -> Array | None:
        """At a run's end, 1 + the first arm that contradicts the family or 0: [] int32; or None."""
        return None

    def evidence(self, space: ArmContext, stats: Statistics, shape: Pieces) -> Evidence:
        """Evidence about pieces of this shape, with `values()` like the means, one a piece."""
        raise undefined(self, "evidence(space, stats, shape)")

    def scales(self, means: Array, source: "Source | None") -> Array:
        """What H_p depends on but the means [K]: costs or variances, [K], or a source's points."""
        return jnp.ones_like(means)

    def plain(self) -> "Family":
        """The family without its `scales`, which are arrays: one program serves all."""
        return self

    def truth(
        self, features: Array | None, theta: Array, scales: Array, pieces: Pieces
    ) -> Evidence:
        """The evidence at a truth [d] under weights, with `derivatives`, for one run: for H*.

        `features` [K, d] are None for independent arms alone, whose means theta has; `scales` are
        as from `scales`; `pieces` are pairs, or half-spaces of scores where there are features.
        """
        raise undefined(self, "truth(features, theta, scales, pieces)")

    def stat_of(self, counts: Array, means: Array, moments: Array | None) -> Stat:
        """What `log_mixture` reads of arms: arrays [K], of `moments` as of `Statistics`."""
        return Stat(counts, means)

    def log_mixture(self, stat: Any, at: Array, c: Array) -> Array:
        """log M(at) = log of the integral of p(rewards | theta)/p(rewards | at) over a prior.

        The prior has the strength of c pulls and is centred at `at`, a mean inside the range. So
        M has mean 1 where `at` is the true mean, whatever the number of rewards, and it is at
        most the largest likelihood ratio. It is convex as `convex_in` says. `stat` is as of
        `stat_of`. All arrays are of one shape, and so is the result.
        """
        raise undefined(self, "log_mixture(stat, at, c)")

    def priors(self, grid: "Grid") -> tuple[Sequence[float], Sequence[float]]:
        """Strengths c, of one length, of tests that a mean is at most `at`, and at least that."""
        return grid.strengths, grid.strengths

    def together(self, a: Array, b: Array) -> Array:
        """log e of a pair, from `log_mixture` of both arms for all priors: [.., J] -> [..]."""
        return log_mean_exp(a + b)

    def refuted_pairs(
        self, seen: Snapshot, arms: ArmBlock, beta: Array
    ) -> Sequence[tuple[Array, Array]]:
        """For each candidate i of a block: i, and which pieces of i and k are refuted, [K] bool."""
        pieces, out = pairs_of(seen.shape), []
        for r in range(arms.m):
            row = pieces.others(jnp.broadcast_to(arms.first + r, seen.means.shape[1:]))
            out.append((arms.first + r, seen.evidence.about(row).refuted(beta)))
        return out

    def interval(self, seen: View, means: Array, beta: Array) -> Interval:
        """Confidence intervals of means [K] at level beta [], for the samples of `seen`."""
        raise undefined(self, "interval(seen, means, beta)")

    def overlap(self, seen: View, beta: Array) -> Array:
        """How far the intervals of both sides of each piece overlap: [Q]; see `Pairs.overlap`."""
        return seen.shape.overlap(seen.lanes, self.interval(seen, seen.means, beta))

    def posterior(self, key: Array, counts: Array, means: Array) -> Array:
        """Draw the arms' means [K] from their posteriors; `key` is [], or [B] with lanes."""
        raise undefined(self, "posterior(key, counts, means)")

    def share(self, seen: View, i: Array, k: Array) -> Array:
        """The share of arm i [] in the LLR of mu_i = mu_k: []; at equal estimates its limit."""
        raise undefined(self, "share(seen, i, k)")


class Source:
    """What the rewards of runs are drawn from, where the family does not draw them.

    A frozen dataclass of settings. `draw` and `lengths` are traced, lanes last; the other
    methods run on the host. Rewards are in units of `instance.family.scale`.
    """

    name: ClassVar[str] = ""
    noise: ClassVar[str] = "uniform"  # what `draw` is given: one of `NOISES`
    dependence: str = ""  # why rewards of an arm are no independent draws; empty: they are

    @property
    def means(self) -> np.ndarray | None:
        """The means of the arms, [K]; None: those of the instance, whatever they are."""
        return None

    def law(self, family: Family) -> str:
        """`Family.law` of these rewards, tested as that family's."""
        if self.dependence:
            return self.dependence
        if family.any_law:
            return family.stated_law()
        return f"the law of rewards from {self.name} is not that of {family!r}"

    def static_part(self) -> "Source":
        """The source without its arrays, which `nature` returns; equal ones share a program."""
        return self

    def check(self, instance: "Instance") -> None:
        """Refuse an instance for which there are no rewards; its means have been checked."""

    def check_runs(self, runs: np.ndarray, initial_pulls: int) -> None:
        """Refuse run indices or initial pulls that there are no rewards for."""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The rewards that each arm may have and their probabilities, [K, S] each."""
        allowed = "a source of points, such as Points: H* is that of their distribution"
        raise UnsupportedError("source", self, allowed)

    def nature(self, instance: "Instance") -> Tree:
        """What `draw` needs: numbers in NumPy arrays [instance, ..]."""
        raise undefined(self, "nature(instance)")

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward of an arm, [] like noise; `pull` [] int32: its number of earlier pulls."""
        raise undefined(self, "draw(lanes, nature, arm, pull, noise)")

    def lengths(self, nature: Any) -> Array | None:
        """The number of rewards of each arm, [K] int32, at least 1; None: they never end.

        The mean of these is the arm's. An arm whose rewards are used up is not pulled.
        """
        return None
