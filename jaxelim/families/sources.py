"""Sources of rewards: given points, Beta distributions, normal noise, recorded rewards.

Places in a stack of recorded rewards need no table: "output" is that of SplitMix64 (Steele, Lea
& Flood 2014), and pi the swap-or-not shuffle (Hoang, Morris & Rogaway 2012).
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
import scipy  # its parts are imported on first use
from jax import Array

from jaxelim import checks
from jaxelim.contracts import Family, Source
from jaxelim.contracts.proofs import UNKNOWN_VARIANCE, states
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.lanes import LaneOps, index_like

if TYPE_CHECKING:
    from jaxelim.instances.instance import Instance

MOST_POINTS = 1000  # the largest number of points of an arm: a draw compares with every one
_SUM = 1e-9  # how far probabilities may sum from 1
CELLS = 4096  # cells of equal probability that a Beta distribution is drawn from
BETAS = (0.01, 1e6)  # the range of the numbers of a Beta distribution
_STDS = (1e-100, 1e100)  # squares of rewards are finite and positive
_LARGEST_RATIO = 1e12  # largest |mean|/std. Beyond it rewards round to few distinct numbers
ROUNDS = 96  # rounds of the shuffle. The law of pi is within 1e-13 of uniform at 64 for n <= 6
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def set_interval(of: Any) -> None:
    """Check the ends `low` and `high` of a family or source, and set them as floats."""
    low, high = (checks.real(name, getattr(of, name)) for name in ("low", "high"))
    if not low < high or not np.isfinite(high - low):
        raise ArgumentError("high", of.high, f"a finite number above low = {low:g}")
    vars(of).update(low=low, high=high)


class Numbers(Source):
    """A source whose numbers are in `nature`, so that one program serves all."""

    static: ClassVar[tuple[str, ...]] = ()  # the settings that `draw` reads

    def static_part(self) -> Any:
        bare, fields = object.__new__(type(self)), dataclasses.fields(self)  # type: ignore[arg-type]
        for name in (field.name for field in fields):
            vars(bare)[name] = getattr(self, name) if name in self.static else None
        return bare

    def _refuse_others(self, instance: "Instance", rewards: Any, where: str) -> None:
        """Refuse rewards that the family of the instance cannot have."""
        try:
            instance.family.check_rewards(np.asarray(rewards))
        except ArgumentError as error:
            raise ArgumentError("source", self, error.allowed, f"{error.note}, {where}") from None


@dataclasses.dataclass(frozen=True)
class Points(Numbers):
    """Rewards of a few values, each with a probability.

    Args:
        support: the points that rewards may be: [S] for all arms, or [K, S].
        probabilities: [K, S], of each arm's points.

    Raises:
        ArgumentError: shapes that do not fit, or probabilities that do not sum to 1.
    """

    support: Any
    probabilities: Any
    name: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        allowed = "[K, S] numbers of at least 0 that sum to 1 for each arm"
        table = checks.real_array("probabilities", self.probabilities, ndim=2)
        if not len(table) or table.min(initial=0) < 0:
            raise ArgumentError("probabilities", self.probabilities, allowed)
        off = np.abs(table.sum(1) - 1)
        if not off.max() <= _SUM:
            note = f"those of arm {int(off.argmax())} sum to {table.sum(1)[off.argmax()]:.12g}"
            raise ArgumentError("probabilities", self.probabilities, allowed, note)
        places = checks.real_array("support", self.support, ndim=(1, 2))
        if places.shape not in (table.shape, table.shape[1:]) or table.shape[1] > MOST_POINTS:
            allowed = f"[S] or [K, S] numbers, S as of probabilities, at most {MOST_POINTS}"
            raise ArgumentError("support", self.support, allowed)
        table = table / table.sum(1, keepdims=True)
        places = np.broadcast_to(places, table.shape)
        vars(self).update(support=_rows(places), probabilities=_rows(table))

    @property
    def means(self) -> np.ndarray:
        return np.sum(np.asarray(self.support) * np.asarray(self.probabilities), 1)

    def check(self, instance: "Instance") -> None:
        self._refuse_others(instance, self.support, "in the support")

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.support), np.asarray(self.probabilities)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """Points in units of the family, and distribution functions: [1, K, S] each."""
        support, probabilities = self.points()
        below = np.minimum(np.cumsum(probabilities, -1), 1.0)
        below[:, -1] = 1.0
        return {"support": support[None] / instance.family.scale, "below": below[None]}

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        support, below = (lanes.row(nature[name], arm) for name in ("support", "below"))
        reached = jnp.concatenate([jnp.ones_like(below[:1], bool), noise >= below[:-1]])
        place = jnp.sum(reached, 0, dtype=jnp.int32) - 1
        return jnp.sum(jnp.where(index_like(support) == place, support, 0), 0)


def _rows(table: np.ndarray) -> tuple:
    return tuple(map(tuple, table.tolist()))


@dataclasses.dataclass(frozen=True)
class Betas(Numbers):
    """Rewards of a Beta distribution an arm, uniform in cells between 4097 quantiles.

    Args:
        table: [K, 2] the numbers (a, b) of each arm, from 0.01 to 1e6.
        low: end of the interval of the rewards.
        high: its other end.

    Raises:
        ArgumentError: numbers out of range.
    """

    table: Any
    low: float = 0.0
    high: float = 1.0
    name: ClassVar[str] = "betas"

    def __post_init__(self) -> None:
        set_interval(self)
        (least, most), table = BETAS, checks.real_array("table", self.table, ndim=2)
        if not len(table) or table.shape[1] != 2 or table.min() < least or table.max() > most:
            allowed = f"two numbers from {least:g} to {most:g} for each arm"
            raise ArgumentError("table", self.table, allowed)
        vars(self).update(table=_rows(table))

    def _quantiles(self) -> np.ndarray:
        """Quantiles at 0, 1/CELLS, .., 1 on [0, 1]: [K, CELLS + 1]."""
        table, places = np.asarray(self.table), np.arange(CELLS + 1) / CELLS
        return scipy.special.betaincinv(table[:, :1], table[:, 1:], places[None])

    @functools.cached_property
    def means(self) -> np.ndarray:
        edges = self._quantiles()
        return self.low + (self.high - self.low) * ((edges[:, 1:] + edges[:, :-1]) / 2).mean(1)

    def check(self, instance: "Instance") -> None:
        self._refuse_others(instance, [self.low, self.high], "an end of the interval")

    def nature(self, instance: "Instance") -> np.ndarray:
        """Quantiles in units of the family: [1, K, CELLS + 1]."""
        edges = self.low + (self.high - self.low) * self._quantiles()
        return edges[None] / instance.family.scale

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        along = noise * CELLS
        place = jnp.minimum(jnp.floor(along), CELLS - 1)
        cell = place.astype(jnp.int32)
        lower, upper = nature[arm, cell], nature[arm, cell + 1]
        return lower + (upper - lower) * (along - place)


@dataclasses.dataclass(frozen=True)
class Normal(Numbers):
    """Normal rewards at the means of the arms.

    Args:
        std: the standard deviation, in the units of the rewards: a number, or [K] numbers.

    Raises:
        ArgumentError: it is neither, or out of range.
    """

    std: float | tuple[float, ...] = 1.0
    name: ClassVar[str] = "normal"
    noise: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        (low, high), stds = _STDS, checks.real_array("std", self.std, ndim=(0, 1))
        bad = stds[(stds < low) | (stds > high)]
        if bad.size:
            allowed = f"a number, or K numbers, from {low:g} to {high:g}"
            raise ArgumentError("std", self.std, allowed, f"{bad.flat[0]:g} is not")
        vars(self).update(std=tuple(stds.tolist()) if stds.ndim else float(stds))

    def law(self, family: Family) -> str:
        known = family.stated_law()
        return known if known == UNKNOWN_VARIANCE else super().law(family)

    def check(self, instance: "Instance") -> None:
        std = np.asarray(self.std)
        if std.ndim and std.size != instance.K:
            allowed = f"a number, or K = {instance.K} numbers"
            raise ArgumentError("std", self.std, allowed, f"it has {std.size}")
        if (np.abs(instance.means) > _LARGEST_RATIO * std).any():
            allowed = f"means of at most {_LARGEST_RATIO:g} std, as rewards are rounded"
            raise ArgumentError("theta", instance.means, allowed)

    def nature(self, instance: "Instance") -> dict[str, np.ndarray]:
        """Means and standard deviations in units of the family: [I, K] each."""
        scale, means = instance.family.scale, instance.means.reshape(-1, instance.K)
        return {"mean": means / scale, "std": np.broadcast_to(self.std, means.shape) / scale}

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        return lanes.take(nature["mean"], arm) + lanes.take(nature["std"], arm) * noise


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
    """pi(place), pi the swap-or-not shuffle of 0 .. n - 1, n below 2^32: uint64; of one shape.

    In round r a place x and its partner (k_r - x) mod n are exchanged or not, by a bit that
    both share. So pi is a permutation for every seed.
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
    """Rewards from outside, without replacement and in a random order: those of a live run.

    Args:
        sizes: [K] the numbers of rewards.
    """

    sizes: Any
    name: ClassVar[str] = "stack"
    order: ClassVar[str] = "permuted"
    dependence: ClassVar[str] = "rewards drawn without replacement are no independent draws"

    def nature(self, instance: Any) -> np.ndarray:
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
        checks.choice("order", self.order, ("permuted", "bootstrap", "given"))
        if not isinstance(self.common, bool):
            raise ArgumentError("common", self.common, "True or False")
        vars(self).update(rewards=_stacks(self.rewards))
        if self.common and len(set(self.sizes)) > 1:
            allowed = "stacks of one length: each item for every arm"
            raise ArgumentError("rewards", self.sizes, allowed)

    @property
    def sizes(self) -> list[int]:  # type: ignore[override]
        return [stack.size for stack in self.rewards]

    @functools.cached_property
    def means(self) -> np.ndarray:
        """Equal for stacks that are permutations; read-only."""
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
        return self._key == other._key if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        sizes = self.sizes
        shown = str([stack.tolist() for stack in self.rewards])
        if sum(sizes) > 24:
            few = ", ".join(map(str, sizes[:6])) + (", .." if len(sizes) > 6 else "")
            shown = f"<{len(sizes)} stacks of {few} rewards, sha256 {self.digest[:16]}>"
        return f"Recorded({shown}, {self.order!r}{', common=True' * self.common})"

    @property
    def dependence(self) -> str:  # type: ignore[override]
        if self.order == "bootstrap":
            return ""
        drawn = "without replacement" if self.order == "permuted" else "in a given order"
        words = f"recorded rewards {drawn} are no independent draws"
        return f'{words}: those of the order "bootstrap" are'

    def check(self, instance: "Instance") -> None:
        if self.common and instance.family.items is None:
            allowed = f"common=False: {instance.family!r} takes arms as independent"
            raise ArgumentError("source", self, allowed)
        for k, stack in enumerate(self.rewards):
            self._refuse_others(instance, stack, f"in the stack of arm {k}")

    def points(self) -> tuple[np.ndarray, np.ndarray]:
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
        first = (np.cumsum(sizes) - sizes).astype(np.int32)
        return {"rewards": rewards[None], "first": first[None], "length": sizes[None]}

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward at the place of this pull; after the last one any."""
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
