"""Recorded rewards in place of drawn ones, under the evidence of a family.

A stack holds the recorded rewards of an arm. Its j-th reward in a run is a function of
(seed, run, arm, j) alone, whatever else was pulled.

Every run has a key of 64 bits, and every arm the output of SplitMix64 (Steele, Lea & Flood
2014) at its index. From there on "output" is that of SplitMix64 seeded by the arm's number.

- "bootstrap": pull j takes place floor(n u_j), u_j output j as a uniform on [0, 1).
- "permuted": pull j takes place pi(j), pi the swap-or-not shuffle (Hoang, Morris & Rogaway
  2012) of n places: in round r a place x and its partner (k_r - x) mod n are exchanged or
  not, by a bit that both share. No table is kept, and pi is a permutation for every key.
- "given": pull j takes place j.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.shapes import Shape
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families.noise import LARGEST
from jaxelim.families.unknown_variance import GaussianUnknownVariance
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

ORDERS = ("permuted", "bootstrap", "given")
ROUNDS = 96
"""Rounds of the shuffle. The law of pi is within 1e-13 of uniform at 64 for n <= 6."""
_FEW_NUMBERS = 24  # repr shows at most so many rewards
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(z: Array) -> Array:
    """The output function of SplitMix64, of uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def output(seed: Array, index: Array) -> Array:
    """Output `index`, from 0, of SplitMix64: uint64 of any shape."""
    return _mixed(seed + (index.astype(jnp.uint64) + np.uint64(1)) * _GOLDEN)


def _below(bits: Array, n: Array) -> Array:
    """floor(n u) for u = bits/2^64: uint64."""
    u = (bits >> np.uint64(11)).astype(jnp.float64) * 2.0**-53
    return jnp.floor(u * n.astype(jnp.float64)).astype(jnp.uint64)


def shuffled(seed: Array, place: Array, n: Array, rounds: int = ROUNDS) -> Array:
    """pi(place), pi the swap-or-not shuffle of 0 .. n - 1: uint64; all of one shape.

    Args:
        seed: uint64.
        place: uint64, below n.
        n: uint64, at least 1 and below 2^32.
        rounds: number of rounds.
    """

    def step(r: Array, x: Array) -> Array:
        r = jnp.asarray(r).astype(jnp.uint64)
        k = _below(output(seed, r), n)
        partner = jnp.where(k >= x, k - x, k + n - x)
        # Indices of bits are above those of the k_r.
        index = ((r + np.uint64(1)) << np.uint64(32)) | jnp.maximum(x, partner)
        return jnp.where((output(seed, index) >> np.uint64(63)) == 1, partner, x)

    return jax.lax.fori_loop(0, rounds, step, place)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Stacks(Family):
    """The draws of recorded rewards in a program, which depends on their number alone."""

    order: str
    noise: ClassVar[str] = "run"

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """All rewards in units of the family, and where each stack begins: [1, ..]."""
        past = instance.family
        assert isinstance(past, Recorded)
        sizes = np.array([stack.size for stack in past.rewards], np.int32)
        rewards = np.concatenate(past.rewards) / past.scale
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        return {"rewards": rewards[None], "first": first[None], "length": sizes[None]}

    def draw(self, lanes: LaneOps, nature: dict, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward at the place of this pull; after the last one any."""
        first, n = (lanes.take(nature[name], arm) for name in ("first", "length"))
        if self.order == "given":
            place = pull
        elif self.order == "bootstrap":
            bits = output(output(noise, arm), pull)
            place = _below(bits, n)
        else:
            at = jnp.clip(pull, 0, n - 1).astype(jnp.uint64)
            place = shuffled(output(noise, arm), at, n.astype(jnp.uint64))
        return nature["rewards"][first + jnp.clip(place.astype(jnp.int32), 0, n - 1)]

    def used_up(self, lanes: LaneOps, nature: dict, arm: Array, pull: Array) -> Array | None:
        if self.order == "bootstrap":
            return None
        inside = (arm >= 0) & (arm < nature["length"].shape[0])
        return inside & (pull >= lanes.take(nature["length"], jnp.where(inside, arm, 0)))


def tested_family(family: Family) -> Family:
    """The family whose evidence a run has, where its rewards may be recorded ones."""
    return family.family if isinstance(family, Recorded) else family


def source_of(family: Family, settled: Family) -> Family:
    """What draws the rewards of a program: stacks, or the family, as `settled` made it."""
    return Stacks(family.order) if isinstance(family, Recorded) else settled


_SHARED = ("name", "structures", "shapes", "initial_pulls", "square", "low", "high")
"""What recorded rewards have of the tested family, where it has it."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Recorded(Family):
    """Recorded rewards of each arm, for trying a rule on past data.

    Estimates, evidence and tests are those of `family`; a program has `Stacks` for the
    draws. The truth is the stacks' means: `je.Instance.unstructured(recorded.means,
    recorded)`. A run that chooses an arm without rewards left is truncated; a bootstrap
    never is.

    Args:
        rewards: a stack of two or more numbers for each of two or more arms, in a sequence
            or in a mapping from names; lengths may differ.
        order: "permuted": without replacement, in a random order for every run.
            "bootstrap": with replacement. "given": as recorded, for one run.
        family: of independent arms, as `Bernoulli()`.

    Raises:
        ArgumentError: fewer than two arms or rewards, NaN, rewards or means that the family
            cannot have, or another order.
        UnsupportedError: no family, or one of recorded rewards.

    Example:
        >>> past = Recorded([[0, 1, 1, 0], [0, 0, 1, 0, 0]], family=Bernoulli())
        >>> past.means
        array([0.5, 0.2])
    """

    rewards: Any  # a tuple of arrays, one an arm
    order: str = "permuted"
    family: Any = dataclasses.field(kw_only=True)
    noise: ClassVar[str] = "run"

    def __post_init__(self) -> None:
        if not isinstance(self.family, Family) or isinstance(self.family, Recorded):
            allowed = "a reward family such as Bernoulli() or GaussianUnknownVariance()"
            raise UnsupportedError("family", self.family, allowed)
        no_means = np.zeros(0)
        if self.family.own_means(no_means) is not no_means:
            allowed = "a family without distributions: rewards are drawn from the stacks"
            raise ArgumentError("family", self.family, allowed)
        checks.choice("order", self.order, ORDERS)
        object.__setattr__(self, "rewards", _stacks(self.rewards, self.family))
        for name in _SHARED:
            if hasattr(self.family, name):
                object.__setattr__(self, name, getattr(self.family, name))

    @functools.cached_property
    def means(self) -> np.ndarray:
        """The means of the stacks, [K], read-only; equal for stacks that are permutations."""
        means = np.array([math.fsum(stack) / stack.size for stack in self.rewards])
        means.setflags(write=False)
        return means

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the stacks and their lengths."""
        total = hashlib.sha256(repr([stack.size for stack in self.rewards]).encode())
        for stack in self.rewards:
            total.update((stack + 0.0).astype("<f8").tobytes())
        return total.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recorded):
            return NotImplemented
        same = self.order == other.order and self.family == other.family
        return same and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.digest, self.order, self.family))

    def __repr__(self) -> str:
        sizes = [stack.size for stack in self.rewards]
        shown = str([stack.tolist() for stack in self.rewards])
        if sum(sizes) > _FEW_NUMBERS:
            few = ", ".join(map(str, sizes[:6])) + (", .." if len(sizes) > 6 else "")
            shown = f"<{len(sizes)} stacks of {few} rewards, sha256 {self.digest[:16]}>"
        return f"Recorded({shown}, {self.order!r}, family={self.family!r})"

    def law(self) -> str:
        return self.family.recorded_law(self.order)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The lengths of stacks that are drawn from without replacement; else None."""
        return tuple(stack.size for stack in self.rewards) if self.order == "permuted" else None

    def check(self, instance: "Instance") -> None:
        """Refuse a batch, and any means but the stacks'."""
        if instance.batched or instance.K != len(self.rewards):
            allowed = f"one instance of {len(self.rewards)} arms, one a stack"
            raise ArgumentError("family", self, allowed, f"its means are {instance.means.shape}")
        if not np.array_equal(instance.means, self.means):
            allowed = f"the means of the stacks, {self.means.tolist()}: the attribute `means`"
            raise ArgumentError("theta", instance.means, allowed)
        self.family.check(instance)

    def check_noise(self, noise: np.ndarray) -> None:
        allowed = "None: recorded rewards come from their stacks"
        raise UnsupportedError("noise", noise, allowed)

    def check_runs(self, runs: np.ndarray, initial_pulls: int) -> None:
        if self.order == "given" and runs.size != 1:
            allowed = "one run: rewards in the given order are the same in every run"
            raise ArgumentError("runs", runs, allowed)
        least = min(stack.size for stack in self.rewards)
        if self.order != "bootstrap" and initial_pulls > least:
            allowed = f"at most {least}, the length of the shortest stack"
            raise ArgumentError("initial_pulls", initial_pulls, allowed)
        largest = max(np.abs(stack).max() for stack in self.rewards) / self.scale
        if largest > LARGEST:
            allowed = f"rewards of at most {LARGEST:g} {self.scale:g}"
            raise ArgumentError("family", self, allowed, "their squares would overflow")

    # The rest of the contract is that of the tested family.

    @property
    def scale(self) -> float:
        return self.family.scale

    def has(self, method: str) -> bool:
        return self.family.has(method)

    def for_arms(self, arms: int) -> Any:
        return self.family.for_arms(arms)

    def check_arms(self, arms: "Arms") -> None:
        self.family.check_arms(arms)

    def mean(self, scores: np.ndarray) -> np.ndarray:
        return self.family.mean(scores)

    def link(self, means: np.ndarray) -> np.ndarray:
        return self.family.link(means)

    def check_shape(self, problem: Problem, shape: Shape) -> None:
        self.family.check_shape(problem, shape)

    def ridge_of(self, ridge: float | None, instance: "Arms") -> float | None:
        return self.family.ridge_of(ridge, instance)

    def settled(self, **job: Any) -> Family:
        return self.family.settled(**job)

    def scales(self, means: Array) -> Array:
        return self.family.recorded_scales(self.rewards, means)

    def plain(self) -> Family:
        return self.family.plain()


def _stacks(rewards: Any, family: Family) -> tuple[np.ndarray, ...]:
    """The stacks of two or more arms, checked, read-only."""
    several = list(rewards.values()) if isinstance(rewards, Mapping) else rewards
    allowed = "a stack of two or more rewards for each of two or more arms"
    if isinstance(several, str) or not hasattr(several, "__len__") or len(several) < 2:
        raise ArgumentError("rewards", rewards, allowed)
    stacks = []
    for k, numbers in enumerate(several):
        try:
            stack = checks.real_array("rewards", numbers, ndim=1)
        except ArgumentError as error:
            note = f"the stack of arm {k}: {error.note or 'no numbers'}"
            raise ArgumentError("rewards", numbers, f"{allowed}, finite numbers", note) from None
        if stack.size < 2:
            word = "is empty" if stack.size == 0 else "has one reward"
            raise ArgumentError("rewards", numbers, allowed, f"the stack of arm {k} {word}")
        _refuse_others(family, stack, k)
        stack.setflags(write=False)
        stacks.append(stack)
    if sum(stack.size for stack in stacks) >= 2**31:
        raise ArgumentError("rewards", rewards, "fewer than 2^31 rewards")
    return tuple(stacks)


def _refuse_others(family: Family, stack: np.ndarray, k: int) -> None:
    """Refuse rewards of arm k that the family cannot draw."""
    try:
        family.check_rewards(stack)
    except ArgumentError as error:
        note = f"{error.note}, in the stack of arm {k}"
        raise ArgumentError("rewards", stack, error.allowed, note) from None
    if isinstance(family, GaussianUnknownVariance) and np.ptp(stack) == 0:
        note = f"those of arm {k} are all {stack[0]:g}"
        raise ArgumentError("rewards", stack, f"rewards that differ for {family!r}", note)
