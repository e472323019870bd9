"""Recorded rewards in place of drawn ones.

Places in a stack need no table: "output" is that of SplitMix64 (Steele, Lea & Flood 2014), and
pi the swap-or-not shuffle (Hoang, Morris & Rogaway 2012).
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
from jaxelim.contracts import Family
from jaxelim.contracts.proofs import states
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.families.sources import MOST_POINTS, Numbers
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

ORDERS = ("permuted", "bootstrap", "given")
_FEW_NUMBERS = 24  # repr shows at most so many rewards
ROUNDS = 96  # rounds of the shuffle. The law of pi is within 1e-13 of uniform at 64 for n <= 6
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def output(seed: Array, index: Array) -> Array:
    """Output `index`, from 0, of a seed: uint64 of any shape."""
    z = seed + (index.astype(jnp.uint64) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def below(bits: Array, n: Array) -> Array:
    """floor(n u) for u = bits/2^64: uint64."""
    u = (bits >> np.uint64(11)).astype(jnp.float64) * 2.0**-53
    return jnp.floor(u * n.astype(jnp.float64)).astype(jnp.uint64)


def shuffled(seed: Array, place: Array, n: Array, rounds: int = ROUNDS) -> Array:
    """pi(place), pi the swap-or-not shuffle of 0 .. n - 1: uint64; all of one shape.

    In round r a place x and its partner (k_r - x) mod n are exchanged or not, by a bit that
    both share. So pi is a permutation for every seed. n is at least 1 and below 2^32.
    """

    def step(r: Array, x: Array) -> Array:
        r = jnp.asarray(r).astype(jnp.uint64)
        k = below(output(seed, r), n)
        partner = jnp.where(k >= x, k - x, k + n - x)
        # Indices of bits are above those of the k_r.
        index = ((r + np.uint64(1)) << np.uint64(32)) | jnp.maximum(x, partner)
        return jnp.where((output(seed, index) >> np.uint64(63)) == 1, partner, x)

    return jax.lax.fori_loop(0, rounds, step, place)


class Stacks(Numbers):
    """Rewards of which each arm has so many."""

    order: str
    sizes: Any  # the numbers of rewards: [K]

    def law(self, family: Family) -> str:
        """That of the family for draws in a random order that it knows of."""
        known = family.without_replacement and states(family, "without_replacement")
        return family.stated_law() if self.order == "permuted" and known else super().law(family)

    def check_runs(self, runs: np.ndarray, initial_pulls: int) -> None:
        if self.order == "given" and runs.size != 1:
            allowed = "one run: rewards in the given order are the same in every run"
            raise ArgumentError("runs", runs, allowed)
        if self.order != "bootstrap" and initial_pulls > min(self.sizes):
            allowed = f"at most {min(self.sizes)}, the length of the shortest stack"
            raise ArgumentError("initial_pulls", initial_pulls, allowed)


@dataclasses.dataclass(frozen=True)
class Stack(Stacks):
    """Rewards from outside, of which each arm has so many: those of a live run.

    They come without replacement, in a random order.

    Args:
        sizes: [K] the numbers of rewards.
    """

    sizes: Any
    name: ClassVar[str] = "stack"
    order: ClassVar[str] = "permuted"
    dependence: ClassVar[str] = "rewards drawn without replacement are no independent draws"

    def nature(self, instance: Any) -> np.ndarray:
        """The sizes: [1, K]."""
        return np.array([self.sizes], np.int32)

    def lengths(self, nature: Any) -> Array:
        return nature


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Recorded(Stacks):
    """Recorded rewards of each arm, for trying a rule on past data.

    An arm's j-th reward in a run is a function of (seed, run, arm, j) alone. An arm without
    rewards left has a known mean: it is not pulled, and a run ends with an answer where all
    are known. A bootstrap never ends.

    Args:
        rewards: a stack of two or more numbers for each arm, in a sequence
            or in a mapping from names; lengths may differ.
        order: "permuted": without replacement, in a random order for every run.
            "bootstrap": with replacement. "given": as recorded, for one run.
        common: whether the j-th reward of every arm in a run is of one item, at the same place
            in all stacks, as `Paired` needs.

    Raises:
        ArgumentError: no arms, fewer than two rewards, NaN, another order, or stacks of several
            lengths with `common`.

    Example:
        >>> Recorded([[0, 1, 1, 0], [0, 0, 1, 0, 0]]).means
        array([0.5, 0.2])
    """

    rewards: Any  # a tuple of arrays, one an arm
    order: str = "permuted"
    common: bool = False
    name: ClassVar[str] = "recorded"
    noise: ClassVar[str] = "run"
    static: ClassVar[tuple[str, ...]] = ("order", "common")

    def __post_init__(self) -> None:
        checks.choice("order", self.order, ORDERS)
        if not isinstance(self.common, bool):
            raise ArgumentError("common", self.common, "True or False")
        self._set(rewards=_stacks(self.rewards))
        if self.common and len(set(self.sizes)) > 1:
            allowed = "stacks of one length: each item for every arm"
            raise ArgumentError("rewards", self.sizes, allowed)

    @property
    def sizes(self) -> list[int]:  # type: ignore[override]
        return [stack.size for stack in self.rewards]

    @functools.cached_property
    def means(self) -> np.ndarray:
        """The means of the stacks, [K], read-only; equal for stacks that are permutations."""
        means = np.array([math.fsum(stack) / stack.size for stack in self.rewards])
        means.setflags(write=False)
        return means

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the stacks and their lengths; "" of a static part."""
        if self.rewards is None:
            return ""
        total = hashlib.sha256(repr(self.sizes).encode())
        for stack in self.rewards:
            total.update((stack + 0.0).astype("<f8").tobytes())
        return total.hexdigest()

    @property
    def _key(self) -> tuple:
        return self.order, self.common, self.digest

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Recorded) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        sizes = self.sizes
        shown = str([stack.tolist() for stack in self.rewards])
        if sum(sizes) > _FEW_NUMBERS:
            few = ", ".join(map(str, sizes[:6])) + (", .." if len(sizes) > 6 else "")
            shown = f"<{len(sizes)} stacks of {few} rewards, sha256 {self.digest[:16]}>"
        return f"Recorded({shown}, {self.order!r}{', common=True' * self.common})"

    @property
    def dependence(self) -> str:  # type: ignore[override]
        drawn = {"permuted": "without replacement", "given": "in a given order"}
        if self.order not in drawn:
            return ""
        words = f"recorded rewards {drawn[self.order]} are no independent draws"
        return f'{words}: those of the order "bootstrap" are'

    def check(self, instance: "Instance") -> None:
        if self.common and instance.family.items is None:
            allowed = f"common=False: {instance.family!r} takes arms as independent"
            raise ArgumentError("source", self, allowed)
        for k, stack in enumerate(self.rewards):
            self._refuse_others(instance, stack, f"in the stack of arm {k}")

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The different rewards of each stack, each with its share."""
        found = [np.unique(stack, return_counts=True) for stack in self.rewards]
        size = max(len(values) for values, _ in found)
        if size > MOST_POINTS:
            allowed = f"stacks of at most {MOST_POINTS} different rewards: H* is that of points"
            raise UnsupportedError("source", self, f"{allowed}; one has {size}")
        places = [np.pad(x, (0, size - len(x)), "edge") for x, _ in found]
        shares = [np.pad(n / n.sum(), (0, size - len(n))) for _, n in found]
        return np.stack(places), np.stack(shares)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """All rewards in units of the family, and where each stack begins: [1, ..]."""
        sizes = np.array(self.sizes, np.int32)
        rewards = np.concatenate(self.rewards) / instance.family.scale
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        return {"rewards": rewards[None], "first": first[None], "length": sizes[None]}

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward at the place of this pull; after the last one any. `noise`: of the run."""
        first, n = (lanes.take(nature[name], arm) for name in ("first", "length"))
        own = 0 * arm if self.common else arm
        if self.order == "given":
            place = pull
        elif self.order == "bootstrap":
            place = below(output(output(noise, own), pull), n)
        else:
            at = jnp.clip(pull, 0, n - 1).astype(jnp.uint64)
            place = shuffled(output(noise, own), at, n.astype(jnp.uint64))
        place = first + jnp.clip(place.astype(jnp.int32), 0, n - 1)
        return lanes.take(nature["rewards"], place)

    def lengths(self, nature: Any) -> Array | None:
        return None if self.order == "bootstrap" else nature["length"]


def _stacks(rewards: Any) -> tuple[np.ndarray, ...]:
    """The stacks of the arms, checked, read-only."""
    several = list(rewards.values()) if isinstance(rewards, Mapping) else rewards
    allowed = "a stack of two or more rewards for each of one or more arms"
    if isinstance(several, str) or not hasattr(several, "__len__") or not len(several):
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
        stack.setflags(write=False)
        stacks.append(stack)
    if sum(stack.size for stack in stacks) >= 2**31:
        raise ArgumentError("rewards", rewards, "fewer than 2^31 rewards")
    return tuple(stacks)
