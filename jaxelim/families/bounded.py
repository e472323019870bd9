"""Rewards in an interval, of any distribution."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts import Source
from jaxelim.contracts.proofs import BOUNDED
from jaxelim.errors import ArgumentError
from jaxelim.evidence import betting
from jaxelim.evidence.betting import Truth, Wins
from jaxelim.families.arm import ArmModel
from jaxelim.families.sources import BETAS, Betas, set_interval
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.grid import Grid


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Bounded(ArmModel):
    """Rewards from `low` to `high` of any distribution; each arm has its own mean.

    Nothing but the interval is assumed. The evidence is what the best bets against a mean
    have won, N KL_inf in the limit; `Mixture` tests what the mean of all bets has won. Without
    a source rewards are one of the two ends.

    (Honda & Takemura 2010; Waudby-Smith & Ramdas 2024.)

    Args:
        low: the lower end of the interval, in the units of the rewards.
        high: the upper end.

    Raises:
        ArgumentError: an end is not finite, or high is not above low.
    """

    low: float = 0.0  # type: ignore[misc]
    high: float = 1.0  # type: ignore[misc]
    name: ClassVar[str] = "bounded"
    kind: ClassVar[Callable[..., Any]] = Wins
    any_law: ClassVar[bool] = True
    without_replacement: ClassVar[bool] = True
    convex_in: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        set_interval(self)

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def law(self) -> str:
        return BOUNDED

    def estimated(
        self, counts: np.ndarray, means: np.ndarray, moments: np.ndarray | None
    ) -> Betas:
        """Beta distributions with the means and variances of the rewards."""
        assert moments is not None
        m = np.clip(self._share(means), 1e-6, 1 - 1e-6)
        first, second = (moments[:, power] / counts for power in (0, 1))
        variance = np.clip(second - first**2, 1e-9, 0.999 * m * (1 - m))
        total = m * (1 - m) / variance - 1
        table = np.clip(np.stack([m * total, (1 - m) * total], 1), *BETAS)
        return Betas(table, self.low, self.high)

    def draw(self, lanes: LaneOps, nature: Array, arm: Array, pull: Array, noise: Array) -> Array:
        """`high` where the noise is at least the probability of `low`."""
        above = 1 - self._share(lanes.take(nature, arm))
        return jnp.where(noise >= above, self.high, self.low).astype(noise.dtype)

    def _share(self, means: Any) -> Any:
        return (means - self.low) / self.width

    def _scaled(self, stat: Any) -> Any:
        """The same arms, of rewards in [0, 1]."""
        return stat._replace(mean=jnp.clip(self._share(stat.mean), 0, 1))

    def tables(self, instance: Any) -> Any:
        """[I, K] the numbers of rewards that are drawn without replacement; () where none are."""
        source: Any = getattr(instance, "source", None)
        shuffled = getattr(source, "order", "") == "permuted"
        return source.lengths(source.nature(instance)) if shuffled else ()

    def start(self, space: Any, problem: Any, tables: Any, rewards: Array) -> Any:
        stats, none = super().start(space, problem, (), rewards), jnp.zeros_like(rewards)
        if isinstance(tables, tuple):
            return stats
        size = jnp.broadcast_to(tables.reshape(len(rewards), -1), none.shape).astype(none.dtype)
        return dataclasses.replace(stats, rest=(*stats.rest, none, none, size))

    def first(self, x: Array) -> Wins:
        return Wins(jnp.ones_like(x), x, *self._terms(x))

    def more(self, stat: Wins, x: Array) -> Wins:
        sums = [before + term for before, term in zip(stat[2:10], self._terms(x), strict=True)]
        n = stat.n + 1
        if stat.size is not None and stat.ahead is not None and stat.drawn is not None:
            left = jnp.maximum(stat.size - stat.n, 1)
            sums += [stat.ahead + stat.x1 / left, stat.drawn + stat.n / left, stat.size]
        return Wins(n, self.low + self.width * (sums[0] / n), *sums)

    def _terms(self, x: Array) -> list[Array]:
        return betting.terms(self._share(x), (self.high - x) / self.width)

    def loss(self, stat: Any, by: Array) -> Array:
        """What the best bet against mean + by has won for each reward."""
        arm = self._scaled(stat)
        return jnp.where(by != 0, arm.won(arm.mean + by / self.width, by < 0), 0)

    def meet(self, w_a: Array, a: Any, w_b: Array, b: Any, off: Array) -> Array:
        ends = w_a, self._scaled(a), w_b, self._scaled(b)
        return self.width * betting.meet(*ends, off / self.width)

    def reach(self, stat: Wins, radius: Array, up: Array | bool) -> Array:
        return self.width * betting.reach(self._scaled(stat), radius, up)

    def bending(self, stat: Wins | Truth) -> Truth:
        if isinstance(stat, Truth):
            return stat
        return betting.two_points(self._scaled(stat))._replace(mean=stat.mean)

    def scales(self, means: Array, source: Source | None = None) -> Truth:
        """Points and probabilities of every arm; of the two ends where there is no source."""
        if source is not None:
            points, probabilities = source.points()
            points = self._share(points)
        else:
            share = self._share(means)
            points = jnp.stack([jnp.zeros_like(share), jnp.ones_like(share)], -1)
            probabilities = jnp.stack([1 - share, share], -1)
        one = jnp.ones_like(means)
        return Truth(one, means, jnp.asarray(points), jnp.asarray(probabilities))

    def log_mixture(self, stat: Wins, at: Array, c: Array) -> Array:
        """The logarithm of the stake of the bet |c|: that the mean is above `at`, where c > 0.

        It is -inf where the estimate is on the other side, or the bet is not made.
        """
        value = betting.stake(self._scaled(stat), self._share(at), jnp.abs(c), c > 0)
        return jnp.where((stat.mean - at) * c >= 0, value, -jnp.inf)

    def priors(self, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
        """Bets take the place of strengths."""
        if grid != Grid():
            allowed = f"the default for {self!r}, whose mixture is one of bets"
            raise ArgumentError("strengths", grid.strengths, allowed)
        return betting.BETS, -betting.BETS

    def together(self, a: Array, b: Array) -> Array:
        return betting.together(a, b)
