"""The laws of a reward family, and of a source of rewards.

A one-parameter family's divergence d(x, y), the loss of moving mean x to y, fixes the law of
its rewards: log dP_y/dP_mu(x) = d(x, mu) - d(x, y).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from jaxelim import families
from jaxelim.contracts import Family
from jaxelim.errors import ArgumentError
from jaxelim.families import OneParameter, noise
from jaxelim.lanes import LaneOps
from jaxelim.problems import BestArm
from jaxelim.rules import EBTCI, Uniform
from jaxelim.testing.evidence import mixtures, walks
from jaxelim.testing.instances import means_at
from jaxelim.testing.means import (
    Generator,
    allowed,
    compiled_divergence,
    divergence,
    ends,
    inside,
    is_exact,
    natures,
    noise_of,
    of,
    per_pull,
    with_ends,
)
from jaxelim.testing.report import ERRORS, LUCK, World, require, written
from jaxelim.testing.runs import waiting_runs, whole_runs

OWN = ("nature", "draw", "start", "update", "evidence", "interval", "low", "high")
"""What a family that is no `OneParameter` has to define."""

RADIUS = 0.7
"""Divergence of two means whose rewards are compared: of Gaussians 1.2 deviations apart."""


def laws(world: World) -> list[tuple[str, Any]]:
    """The laws; fewer of a family that has no divergence."""
    family, kind = world.thing, type(world.thing)
    parts: list[Any] = [("settings", settings), ("draws", draws), ("statistics", walks)]
    if is_exact(family):
        parts.insert(1, ("loss", loss))
        parts += [("mixtures", mixtures)] if family.has("log_mixture") else []
        return [*parts, ("runs", runs)]
    own = all(getattr(kind, x, None) is not getattr(Family, x, None) for x in OWN)
    if isinstance(family, OneParameter) or not own:
        words = f"it is not a OneParameter family, or one that defines {', '.join(OWN)}"
        return [("settings", lambda *_: require(False, words))]
    return [*parts, ("runs", runs)]


def settings(world: World, rng: Generator) -> str:
    """A frozen dataclass with a name, a kind of noise and a range of means."""
    family: Any = world.thing
    written(family)
    good = isinstance(family.name, str) and family.name
    good = good and families.NAMES.get(family.name, type(family)) is type(family)
    require(good, f"name is {family.name!r}; rules know a family by it, so it has to be its own")
    known = tuple(noise.SAMPLERS)
    require(family.noise in known, f"noise is {family.noise!r}; it has to be one of {known}")
    require(family.low < family.high, f"no mean is between {family.low} and {family.high}")
    inside(family, rng, 20)
    at = " and ".join(f"{end:g}" for end in ends(family)) or "none"
    return f"means from {family.low:g} to {family.high:g}, ends included: {at}"


def runs(world: World, rng: Generator) -> str:
    """Whole runs with uniform sampling, and runs with EB-TCI whose rewards wait."""
    z = np.array([0.9, 0.0, -0.5, -1.0])
    tried = (means_at(world.thing, z + shift) for shift in (0, -1, -2, 1, 2))
    means = next((one for one in tried if allowed(world.thing, one)), None)
    if means is None:
        return "no runs: check refuses means that are far apart"
    job = dict(problem=BestArm(), instance=of(world.thing, means))
    waits = waiting_runs(world, rng, rule=EBTCI(), **job)  # type: ignore[arg-type]
    return f"{whole_runs(world, rng, rule=Uniform(), **job)}; {waits}"  # type: ignore[arg-type]


def _numbers(f: Callable, *arrays: Any) -> Any:
    """A function of arrays, compiled; NumPy out."""
    return jax.tree.map(np.asarray, jax.jit(f)(*map(jnp.asarray, arrays)))


def loss(world: World, rng: Generator) -> str:
    """The loss is a divergence: 0 for no shift, with slope (y - x)/V(y) in y, by JAX."""
    family, n = world.thing, 400
    x, y = with_ends(family, rng, n), inside(family, rng, n)
    x[::7] = y[::7]
    d = partial(divergence, family)
    slope = jax.jacfwd(d, 1)

    step = 1e-6 * np.minimum(1.0, np.minimum(y - family.low, family.high - y))

    def all_of(x, y, step):
        near = d(y - step, y) + d(y + step, y)
        return d(x, y), d(y, y), slope(x, y), 1 / jax.jacfwd(slope, 1)(y, y), near

    value, zero, slopes, v, near = _numbers(jax.vmap(all_of), x, y, step)
    said = "the loss of mean {y:.6g} has second derivative 1/{v:.6g} at 0; it has to be above 0"
    require((v > 0) & np.isfinite(v), said, y=y, v=v)
    said = "the loss of mean {x:.6g} moved to {y:.6g} is {d:.6g}; it has to be "
    require(np.isfinite(value), said + "finite inside the range", x=x, y=y, d=value)
    rounding = 1e-13 * (1 + np.abs(x) + np.abs(y))
    require(np.abs(zero) <= rounding, said + "0", x=y, y=y, d=zero)
    require(value >= -rounding, said + "at least 0", x=x, y=y, d=value)
    known = (y - x) / v
    right = np.abs(slopes - known) <= 1e-6 * (np.abs(y - x) + np.sqrt(v)) / v
    require(right, "the loss is not that of an exponential family: from {x:.6g} to {y:.6g} its "
            "slope is {s:.6g}, and (y - x)/V(y) is {k:.6g}, V(y) one over the second derivative "
            "at y", x=x, y=y, s=slopes, k=known)  # fmt: skip
    off = np.max(np.abs(near * v / step**2 - 1))
    return f"{n} shifts: 0 for none, slope (y - x)/V(y); small ones off by {off:.1g} of the value"


def draws(world: World, rng: Generator) -> str:
    """Rewards have the mean of their arm, and the likelihood ratio that the loss says.

    W = dP_y/dP_mu(x) = exp(d(x, mu) - d(x, y)), so that f(W) has the same mean over rewards of
    mean y as W f(W) over those of mean mu. It is compared for f(W) = (1 + W)^-1 and (1 + W)^-3,
    whose averages are bounded, so that few rewards cannot decide.
    """
    family, n, k, exact = world.thing, world.draws, 5, is_exact(world.thing)
    means = inside(family, rng, k)
    own = family.for_arms(k)
    rows, at, weight = [means], ends(family), np.ones(k)
    if exact:
        stat = own.kind(jnp.ones(k), jnp.asarray(means))
        weight = per_pull(own, k)
        room = np.stack([means - family.low, family.high - means])
        by = [_numbers(lambda r, up=up: own.reach(stat, r, up), RADIUS / weight) for up in (0, 1)]
        to = means + np.array([[-1], [1]]) * np.minimum(by, 0.9 * room)
        rows += [y if allowed(family, y) else means for y in to]
    rows += [np.append(at, means[at.size :])] if at.size else []
    drawn_of = natures(own, of(family, np.stack(rows)))
    extremes = [0.0, 1 - 2.0**-53] if family.noise == "uniform" else [-8.0, 8.0]

    @jax.jit
    def rewards(natures, arm, noise):
        pull = 2 ** (jnp.arange(noise.shape[0], dtype=jnp.int32) % 16) - 1  # 0, 1, 3, .., 32767
        arm = arm + jnp.zeros_like(pull)
        each_own = jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], (*x.shape, 16)), natures)
        few = own.draw(LaneOps(), each_own, arm[:16], pull[:16], noise[:16])
        return own.draw(LaneOps(), natures, arm, pull, noise), few

    def drawn(row: int, arm: int) -> np.ndarray:
        z = np.concatenate([extremes, noise_of(family, rng, n)])
        x, few = map(np.asarray, rewards(drawn_of[row], jnp.int32(arm), jnp.asarray(z)))
        said = f"mean {rows[row][arm]:.6g}: rewards "
        _check_rewards(own, said, x, few, z, at)
        return x

    least = []
    for arm, mean in enumerate(means):
        x = drawn(0, arm)[2:]
        said = f"mean {mean:.6g}: rewards have mean {x.mean():.6g} over {n} draws, "
        off = abs(x.mean() - mean) / max(x.std() / n**0.5, 1e-300)
        if exact:  # n d(mean, mu) is above it with probability 1e-7 (Chernoff's bound)
            d = weight[arm] * float(compiled_divergence(own)(x.mean(), mean))
            off = 0 if n * d <= np.log(20 / LUCK) else off
        require(off <= ERRORS, f"{said}{off:.1f} standard errors off")
        for row in range(1, 3 if exact else 1):
            least.append(_check_ratio(own, weight[arm], mean, rows[row][arm], x,
                                      drawn(row, arm)[2:]))  # fmt: skip
    for arm in range(at.size):
        same = drawn(len(rows) - 1, arm) == at[arm]
        require(same, f"mean {at[arm]:g}: rewards other than the mean, at an end of the range")
    said = f"n = {n} rewards at each of {k} means have their mean; seen is a bias of "
    said += f"{(ERRORS + 3) / n**0.5:.2g} deviations"
    if not exact:
        return f"{said}; the law of the rewards is not checked"
    return f"{said}; and an average of (1 + W)^-1 or (1 + W)^-3 off by {max(least):.2g}"


def _check_rewards(family: Any, said: str, x: Any, few: Any, noise: Any, at: np.ndarray) -> None:
    good = x.shape == noise.shape and x.dtype == noise.dtype
    have, want = (f"{a.dtype}{list(a.shape)}" for a in (x, noise))
    require(good, f"{said}are {have}; noise is {want}, and so has to be what draw returns")
    bad = ~np.isfinite(x)
    require(~bad, f"{said}are not finite, for noise {noise[bad][:3]}")
    out = (x < family.low) | (x > family.high)
    require(~out, f"{said}are out of the range of means, such as {x[out][:3]}")
    out = np.isin(x, np.setdiff1d([family.low, family.high], at))
    require(~out, f"{said}are at an end of the range that is no mean, for noise {noise[out][:3]}")
    try:
        family.check_rewards(x.astype(float) * family.scale)
    except ArgumentError as error:
        require(False, f"{said}that draw returns are refused by check_rewards: {error}")
    same = np.array_equal(x[:16], few)
    require(same, f"{said}are others where each lane has a nature of its own, at the last axis")


def _check_ratio(
    family: Any, weight: float, mu: float, y: float, of_mu: Any, of_y: Any
) -> float:  # fmt: skip
    """Compare averages over rewards of means mu and y; the least difference that is seen."""
    d = compiled_divergence(family)
    s, r = (expit(weight * np.asarray(d(x, mu) - d(x, y))) for x in (of_mu, of_y))  # W/(1 + W)
    seen = []
    for power in (1, 3):
        ours, theirs = s * (1 - s) ** (power - 1), (1 - r) ** power
        error = np.hypot(ours.std(), theirs.std()) / len(s) ** 0.5 + 10 / len(s)
        off = abs(ours.mean() - theirs.mean()) / error
        require(off <= ERRORS, f"mean {mu:.6g}: rewards have not the likelihood of the loss: with "
                f"W = dP_y/dP_mu, y = {y:.6g}, W (1 + W)^-{power} has mean {ours.mean():.6g}, and "
                f"over rewards of mean y (1 + W)^-{power} has {theirs.mean():.6g}, {off:.1f} "
                "standard errors off")  # fmt: skip
        seen.append((ERRORS + 3) * error)
    return max(seen)


def source_laws(world: World) -> list[tuple[str, Any]]:
    """The laws of the source of an instance's rewards; those of its family are its own."""
    source: Any = world.thing.source
    return [("settings", lambda *_: written(source)), ("draws", source_draws),
            ("runs", source_runs)]  # fmt: skip


def source_draws(world: World, rng: Generator) -> str:
    """First rewards have the mean of their arm; so have those until it is used up, exactly."""
    instance, n, longest = world.thing, world.draws, 20_000
    source, family = instance.source, instance.family
    nature = jax.tree.map(lambda x: jnp.asarray(x[0]), source.nature(instance))

    @jax.jit
    def rewards(arm: Any, pull: Any, noise: Any) -> Any:
        arm, pull = (jnp.broadcast_to(x, noise.shape).astype(jnp.int32) for x in (arm, pull))
        over = source.used_up(LaneOps(), nature, arm, pull)
        over = jnp.zeros(noise.shape, bool) if over is None else over
        return source.draw(LaneOps(), nature, arm, pull, noise) * family.scale, over

    for arm, mean in enumerate(instance.means):
        by_run = source.noise == "run"
        z = rng.integers(2**64, size=n, dtype=np.uint64) if by_run else noise_of(source, rng, n)
        first = np.asarray(rewards(arm, 0, z)[0])
        try:
            family.check_rewards(first)
        except ArgumentError as error:
            require(False, f"arm {arm}: a reward is refused: {error}")
        small = 1e-9 * np.abs(first).max()
        within = abs(first.mean() - mean) <= ERRORS * first.std() / n**0.5 + small
        words = f"arm {arm}: first rewards have mean {first.mean():.6g}, not {mean:.6g}"
        require(within | (np.ptp(first) == 0), words)
        pulls = np.arange(longest)
        ended = np.flatnonzero(rewards(arm, pulls, np.resize(z, longest))[1])
        if ended.size:
            last = int(ended[0])
            good = last > 0 and ended.size == longest - last
            require(good, f"arm {arm}: it is used up, then not")
            pull, key = (x.ravel() for x in np.meshgrid(pulls[:last], z[:8]))
            whole = np.asarray(rewards(arm, pull, key)[0]).reshape(8, last)
            words = f"arm {arm}: its {last} rewards until it is used up have other means than"
            require(np.abs(whole.mean(1) - mean) <= small, f"{words} {mean:g}")
    seen = (ERRORS + 3) / n**0.5
    return f"n = {n} first rewards have the arms' means; seen is a bias of {seen:.2g} deviations"


def source_runs(world: World, rng: Generator) -> str:
    """Whole runs with uniform sampling; none of a source with one run."""
    try:
        world.thing.source.check_runs(np.arange(2), 1)
    except ArgumentError as error:
        return f"no runs: {error.allowed}"
    return whole_runs(world, rng, problem=BestArm(), rule=Uniform(), instance=world.thing)

