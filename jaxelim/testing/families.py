"""The laws of the rewards of a family, and of a source.

A one-parameter family's divergence d(x, y), the loss of moving mean x to y, fixes the law of
its rewards: log dP_y/dP_mu(x) = d(x, mu) - d(x, y).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from jaxelim import families
from jaxelim.errors import ArgumentError
from jaxelim.families import OneParameter
from jaxelim.families.draws import SAMPLERS
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.problems import BestArm
from jaxelim.rules import EBTCI, Uniform
from jaxelim.testing.instances import means_at
from jaxelim.testing.report import ERRORS, LUCK, Generator, World, require, settings
from jaxelim.testing.rules import waiting_runs, whole_runs

OWN = ("nature", "draw", "start", "update", "evidence", "interval", "low", "high")
"""What a family that is no `OneParameter` has to define."""

RADIUS = 0.7
"""Divergence of two means whose rewards are compared: of Gaussians 1.2 deviations apart."""


# Means of a family, their divergence, and rewards.


def is_exact(family: Any) -> bool:
    """Whether the loss is a divergence, which fixes the law of the rewards."""
    return isinstance(family, OneParameter) and family.exponential


def instance_of(family: Any, means: Any) -> Instance:
    """An instance of these means, [K], the settings repeated for K arms."""
    return Instance.unstructured(means, family.for_arms(len(means)))


def allowed(family: Any, means: Any) -> bool:
    """Whether `check` allows these means."""
    try:
        instance_of(family, np.resize(means, max(2, np.size(means))))
    except ArgumentError:
        return False
    return True


def inside(family: Any, rng: Generator, n: int) -> np.ndarray:
    """Means inside the range that `check` allows: [n]."""
    means = means_at(family, np.clip(rng.normal(size=8 * n), -3, 3))
    if not allowed(family, means[:n]):
        means = np.array([mean for mean in means if allowed(family, mean)])
    require(means.size >= n, "check refuses means inside the range, and most of those drawn")
    return means[:n]


def ends(family: Any) -> np.ndarray:
    """The ends of the range that are means."""
    inner = inside(family, np.random.default_rng(0), 1)[0]
    return np.array([end for end in (family.low, family.high)
                     if np.isfinite(end) and allowed(family, [end, inner])])  # fmt: skip


def with_ends(family: Any, rng: Generator, n: int) -> np.ndarray:
    """Means inside the range; where its ends are means, a quarter of them ends: [n]."""
    means, at = inside(family, rng, n), ends(family)
    if at.size:
        means[: n // 4] = rng.choice(at, n // 4)
    return rng.permutation(means)


def per_pull(family: Any, k: int) -> np.ndarray:
    """What a pull adds to the weight of each of k arms: [k]."""
    own = family.per_pull(jnp.ones(k))
    return np.ones(k) if own is None else np.asarray(own)


def divergence(family: Any, x: Any, y: Any) -> jax.Array:
    """d(x, y), the loss of the shift y - x."""
    x, y = jnp.broadcast_arrays(x, y)
    return family.loss(family.kind(jnp.ones_like(x), x), y - x)


def drawn(instance: Instance, rng: Generator, n: int, last: int = 2**15) -> np.ndarray:
    """n rewards of each arm, [K, n], at pulls 0, 1, 3, 7, .. up to `last`, that can be."""
    family: Any = instance.family
    source, k = instance.source, instance.K
    origin: Any = family if source is None else source
    nature = jax.tree.map(lambda x: jnp.asarray(x[0]), origin.nature(instance))
    size = k, n + 2  # the first two of each arm are of extreme noise
    if origin.noise == "run":
        z = rng.integers(2**64, size=size, dtype=np.uint64)
    else:
        normal = origin.noise != "uniform"
        z = rng.standard_normal(size) if normal else rng.random(size)
        z[:, :2] = (-8.0, 8.0) if normal else (0.0, 1 - 2.0**-53)
    place = np.arange(z.size, dtype=np.int32)
    arm, pull = place // (n + 2), np.minimum(2 ** (place % 16) - 1, last)
    some = np.arange(16) * (z.size // 16)

    @jax.jit
    def draw(nature: Any, arm: Any, pull: Any, z: Any) -> Any:
        x = origin.draw(LaneOps(), nature, arm, pull, z)
        if source is not None:  # such instances come one at a time
            return x, x[some]
        own = jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], (*x.shape, 16)), nature)
        return x, origin.draw(LaneOps(), own, arm[some], pull[some], z[some])

    x, few = map(np.asarray, draw(nature, arm, pull, jnp.asarray(z.ravel())))
    have, want = f"{x.dtype}{list(x.shape)}", f"float64[{z.size}]"
    require(have == want, f"rewards are {have}; they have to be {want}")
    require(x[some] == few, "rewards are others where each lane has a nature of its own, at the "
            "last axis")  # fmt: skip
    require(np.isfinite(x), "rewards are not finite, for noise {z}", z=z.ravel())
    if source is None:
        out = np.setdiff1d([family.low, family.high], ends(family))
        require(~np.isin(x, out), "a reward is at an end of the range that is no mean")
    x = x.reshape(size) * (1.0 if source is None else family.scale)
    try:
        family.check_rewards(x)
    except ArgumentError as error:
        require(False, f"rewards are out of the range: {error}")
    return x[:, 2:]


# The laws of a family.


def named(world: World, rng: Generator) -> str:
    """A frozen dataclass with a name, a kind of noise and a range of means."""
    family: Any = world.thing
    settings(world)
    good = family.name and families.NAMES.get(family.name, type(family)) is type(family)
    require(good, f"name is {family.name!r}; rules know a family by it, so it has to be its own")
    known = tuple(SAMPLERS)
    require(family.noise in known, f"noise is {family.noise!r}; it has to be one of {known}")
    require(family.low < family.high, f"no mean is between {family.low} and {family.high}")
    at = " and ".join(f"{end:g}" for end in ends(family)) or "none"
    return f"means from {family.low:g} to {family.high:g}, ends included: {at}"


def loss(world: World, rng: Generator) -> str:
    """The loss is a divergence: 0 for no shift, with slope (y - x)/V(y) in y, by JAX."""
    family, n = world.thing, 400
    x, y = with_ends(family, rng, n), inside(family, rng, n)
    x[::7] = y[::7]
    step = 1e-6 * np.minimum(1.0, np.minimum(y - family.low, family.high - y))
    d = partial(divergence, family)
    slope = jax.jacfwd(d, 1)
    small = jax.vmap(lambda y, step: d(y - step, y) + d(y + step, y))(y, step)
    value, zero, slopes, v = (np.asarray(jax.jit(jax.vmap(f))(*at)) for f, at in (
        (d, (x, y)), (d, (y, y)), (slope, (x, y)),
        (lambda *at: 1 / jax.jacfwd(slope, 1)(*at), (y, y))))  # fmt: skip
    of: Any = dict(x=x, y=y, d=value, s=slopes, v=v, k=(y - x) / v)
    said = "the loss of mean {y:.6g} has second derivative 1/{v:.6g} at 0; it has to be above 0"
    require((v > 0) & np.isfinite(v), said, **of)
    said = "the loss of mean {x:.6g} moved to {y:.6g} is {d:.6g}; it has to be "
    require(np.isfinite(value), said + "finite inside the range", **of)
    rounding = 1e-13 * (1 + np.abs(x) + np.abs(y))
    require(np.abs(zero) <= rounding, said + "0", **of | dict(x=y, d=zero))
    require(value >= -rounding, said + "at least 0", **of)
    right = np.abs(slopes - of["k"]) <= 1e-6 * (np.abs(y - x) + np.sqrt(v)) / v
    require(right, "the loss is not that of an exponential family: from {x:.6g} to {y:.6g} its "
            "slope is {s:.6g}, not {k:.6g}, (y - x) times its second derivative at y", **of)
    off = np.max(np.abs(small * v / step**2 - 1))
    return f"{n} shifts: 0 for none, slope (y - x)/V(y); small ones off by {off:.1g} of the value"


def _means_hold(x: np.ndarray, means: np.ndarray, but: Any = False) -> str:
    """The averages of rewards [K, n] are the means, but for some."""
    n, a = x.shape[1], x.mean(1)
    off = np.abs(a - means) / (x.std(1) / n**0.5 + 1e-9 * np.abs(x).max(1) + 1e-300)
    words = f"over {n} draws, {{off:.1f}} standard errors off"
    require((off <= ERRORS) | but, f"mean {{m:.6g}}: rewards have mean {{a:.6g}} {words}",
            m=means, a=a, off=off)  # fmt: skip
    return f"their mean; seen is a bias of {(ERRORS + 3) / n**0.5:.2g} deviations"


def draws(world: World, rng: Generator) -> str:
    """Rewards have the mean of their arm, and the likelihood ratio that the loss says.

    W = dP_y/dP_mu(x) = exp(d(x, mu) - d(x, y)), so that f(W) has the same mean over rewards of
    mean y as W f(W) over those of mean mu. It is compared for f(W) = (1 + W)^-1 and (1 + W)^-3,
    whose averages are bounded, so that few rewards cannot decide.
    """
    k, n = 5, world.draws
    family, means = world.thing.for_arms(k), inside(world.thing, rng, k)
    x, at = drawn(instance_of(family, means), rng, n), ends(family)
    if at.size:
        some = instance_of(family, np.append(at, means[at.size :]))
        require(drawn(some, rng, n)[: at.size] == at[:, None],
                "rewards other than the mean, at an end of the range")  # fmt: skip
    said = f"n = {n} rewards at each of {k} means have "
    if not is_exact(world.thing):
        return f"{said}{_means_hold(x, means)}; the law of the rewards is not checked"
    stat = family.kind(jnp.ones(k), jnp.asarray(means))
    unit, d = per_pull(family, k)[:, None], jax.jit(partial(divergence, family))
    # n d(mean, mu) is above it with probability 1e-7 (Chernoff's bound)
    few = n * unit[:, 0] * d(x.mean(1), means) <= np.log(20 / LUCK)
    said, least = said + _means_hold(x, means, np.asarray(few)), 0.0
    for up, room in ((False, means - family.low), (True, family.high - means)):
        by = np.asarray(jax.jit(partial(family.reach, up=up))(stat, RADIUS / unit[:, 0]))
        y = means + (1 if up else -1) * np.minimum(by, 0.9 * room)
        y = y if allowed(family, y) else means
        s, r = (expit(unit * np.asarray(d(z, means[:, None]) - d(z, y[:, None])))
                for z in (x, drawn(instance_of(family, y), rng, n)))  # fmt: skip
        for power in (1, 3):
            ours, theirs = s * (1 - s) ** (power - 1), (1 - r) ** power
            a, b = ours.mean(1), theirs.mean(1)
            error = np.hypot(ours.std(1), theirs.std(1)) / n**0.5 + 10 / n
            words = f"with W = dP_y/dP_mu, y = {{y:.6g}}, W (1 + W)^-{power} has mean {{a:.6g}}, "
            require(np.abs(a - b) <= ERRORS * error, "mean {m:.6g}: rewards have not the "
                    f"likelihood of the loss: {words}and (1 + W)^-{power} over rewards of mean y "
                    "has {b:.6g}", m=means, y=y, a=a, b=b)  # fmt: skip
            least = max(least, (ERRORS + 3) * error.max())
    return f"{said}; and an average of (1 + W)^-1 or (1 + W)^-3 off by {least:.2g}"


def runs(world: World, rng: Generator) -> str:
    """Whole runs with uniform sampling, and runs with EB-TCI whose rewards wait."""
    for shift in (0, -1, -2, 1, 2):
        means = means_at(world.thing, np.array([0.9, 0.0, -0.5, -1.0]) + shift)
        if allowed(world.thing, means):
            job: Any = dict(problem=BestArm(), instance=instance_of(world.thing, means))
            waits = waiting_runs(world, rng, rule=EBTCI(), **job)
            return f"{whole_runs(world, rng, rule=Uniform(), **job)}; {waits}"
    return "no runs: check refuses means that are far apart"


# The laws of the source of an instance's rewards; those of its family are its own.


def source_draws(world: World, rng: Generator) -> str:
    """First rewards have the mean of their arm; so have those until it is used up, exactly."""
    instance, n, longest = world.thing, world.draws, 20_000
    source, means = instance.source, instance.means
    first = drawn(instance, rng, n, 0)
    said = _means_hold(first, means, np.ptp(first, 1) == 0)
    nature = jax.tree.map(lambda x: jnp.asarray(x[0]), source.nature(instance))
    pulls, lengths = np.arange(longest, dtype=np.int32), source.lengths(nature)
    for arm, length in enumerate([] if lengths is None else np.asarray(lengths)):
        last = int(length)
        require(last > 0, f"arm {arm}: it has {last} rewards")
        if last < longest:
            keys = np.repeat(rng.integers(2**64, size=8, dtype=np.uint64), last)
            all_of = jax.jit(partial(source.draw, LaneOps()))(
                nature, np.full(8 * last, arm), np.tile(pulls[:last], 8), keys)  # fmt: skip
            whole = np.asarray(all_of).reshape(8, last).mean(1) * instance.family.scale
            words = f"arm {arm}: its {last} rewards until it is used up have other means than"
            near = 1e-9 * np.abs(first).max()
            require(np.abs(whole - means[arm]) <= near, f"{words} {means[arm]:g}")
    return f"n = {n} first rewards of each arm have {said}"


def source_runs(world: World, rng: Generator) -> str:
    """Whole runs with uniform sampling; none of a source with one run."""
    try:
        world.thing.source.check_runs(np.arange(2), 1)
    except ArgumentError as error:
        return f"no runs: {error.allowed}"
    return whole_runs(world, rng, problem=BestArm(), rule=Uniform(), instance=world.thing)


SOURCE_LAWS = [("settings", lambda world, rng: settings(World(world.thing.source))),
               ("draws", source_draws), ("runs", source_runs)]  # fmt: skip
