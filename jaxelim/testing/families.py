"""The laws of a family's rewards, statistics, evidence and mixtures, and those of a source.

A one-parameter family's divergence d(x, y), the loss of moving mean x to y, fixes the law of
its rewards: log dP_y/dP_mu(x) = d(x, mu) - d(x, y).
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from jaxelim import families
from jaxelim.contracts import Family, Snapshot
from jaxelim.errors import ArgumentError
from jaxelim.families import OneParameter
from jaxelim.families.draws import SAMPLERS
from jaxelim.instances.instance import Instance
from jaxelim.lanes import PLAIN, ArmBlock, LaneOps
from jaxelim.mixtures import Grid
from jaxelim.mixtures.pieces import each
from jaxelim.problems import BestArm, Thresholding, TopM
from jaxelim.rules import EBTCI, Uniform
from jaxelim.testing.report import ERRORS, World, require, settings
from jaxelim.testing.rules import Laws, means_at, waiting_runs, whole_runs

OWN = ("nature", "draw", "start", "update", "evidence", "interval", "low", "high")
"""What a family that is no `OneParameter` has to define."""

RADIUS = 0.7  # divergence of two means whose rewards are compared: 1.2 deviations of Gaussians
BETAS = (1e-3, 1.0, 4.0, 40.0)  # levels of the intervals
GRID = (1 - np.cos(np.pi * np.linspace(0, 1, 100_001))) / 2  # shares of a way, dense at both ends


def laws(world: World) -> Laws:
    """Of a family; fewer of one that has no divergence."""
    exact, mixed = is_exact(world.thing), world.thing.has("log_mixture")
    found = [("settings", named, True), ("loss", loss, exact), ("draws", draws, True),
             ("evidence", walks, True), ("mixtures", mixtures, exact and mixed),
             ("runs", runs, True)]  # fmt: skip
    return [(name, law, world) for name, law, there in found if there]


# Means of a family, their divergence, and rewards.


def is_exact(family: Any) -> bool:
    """Whether the loss is a divergence, which fixes the law of the rewards."""
    return isinstance(family, OneParameter) and family.exponential


def instance_of(family: Any, means: Any) -> Instance | None:
    """An instance of these means, [K], the settings repeated for K arms; None where refused."""
    try:
        return Instance.unstructured(means, family.for_arms(len(means)))
    except ArgumentError:
        return None


def inside(family: Any, rng: Any, n: int, ends: Any = ()) -> np.ndarray:
    """Means inside the range that `check` allows, but a quarter of them `ends`: [n]."""
    means = means_at(family, np.clip(rng.normal(size=8 * n), -3, 3))
    if instance_of(family, means[:n]) is None:
        means = np.array([mean for mean in means if instance_of(family, [mean])])
    require(means.size >= n, "check refuses means inside the range, and most of those drawn")
    if len(ends):
        means[: n // 4] = rng.choice(ends, n // 4)
    return rng.permutation(means[:n])


def ends_of(family: Any) -> np.ndarray:
    """The ends of the range that are means."""
    ends = [x for x in (family.low, family.high) if np.isfinite(x) and instance_of(family, [x])]
    return np.array(ends)


def divergence(family: Any, x: Any, y: Any) -> jax.Array:
    """d(x, y), the loss of the shift y - x."""
    x, y = jnp.broadcast_arrays(x, y)
    return family.loss(family.kind(jnp.ones_like(x), x), y - x)


def per_pull(family: Any, k: int) -> jax.Array:
    """What a pull adds to the weight of each of k arms: [k]."""
    return family.weight(family.kind(jnp.ones(k), jnp.ones(k)))


def drawn(instance: Any, rng: Any, n: int, last: int = 2**15) -> np.ndarray:
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
        out = np.setdiff1d([family.low, family.high], ends_of(family))
        require(~np.isin(x, out), "a reward is at an end of the range that is no mean")
    x = x.reshape(size) * (1.0 if source is None else family.scale)
    try:
        family.check_rewards(x)
    except ArgumentError as error:
        require(False, f"rewards are out of the range: {error}")
    return x[:, 2:]


# The laws of a family.


def named(world: World) -> str:
    """A frozen dataclass with a name, a kind of noise and a range of means."""
    family, kind = world.thing, type(world.thing)
    own = all(getattr(kind, x, None) is not getattr(Family, x, None) for x in OWN)
    require(is_exact(family) or (own and not isinstance(family, OneParameter)),
            f"it is not a OneParameter family, or one that defines {', '.join(OWN)}")  # fmt: skip
    settings(world)
    good = family.name and families.NAMES.get(family.name, kind) is kind
    require(good, f"name is {family.name!r}; rules know a family by it, so it has to be its own")
    known = tuple(SAMPLERS)
    require(family.noise in known, f"noise is {family.noise!r}; it has to be one of {known}")
    require(family.low < family.high, f"no mean is between {family.low} and {family.high}")
    inside(family, world.rng, 9)
    at = " and ".join(f"{end:g}" for end in ends_of(family)) or "none"
    return f"means from {family.low:g} to {family.high:g}, ends included: {at}"


def loss(world: World) -> str:
    """The loss is a divergence: 0 for no shift, with slope (y - x)/V(y) in y, by JAX."""
    family, rng, n = world.thing, world.rng, 400
    x, y = inside(family, rng, n, ends_of(family)), inside(family, rng, n)
    x[::7] = y[::7]
    step = 1e-6 * np.minimum(1.0, np.minimum(y - family.low, family.high - y))
    d = partial(divergence, family)
    slope = jax.jacfwd(d, 1)
    v, z, s, bend, up, down = (np.asarray(jax.jit(jax.vmap(f))(*at)) for f, at in (
        (d, (x, y)), (d, (y, y)), (slope, (x, y)), (jax.jacfwd(slope, 1), (y, y)),
        (d, (y - step, y)), (d, (y + step, y))))  # fmt: skip
    of: Any = dict(x=x, y=y, d=v, z=z, s=s, b=bend, k=(y - x) * bend)
    require((bend > 0) & np.isfinite(bend), "the loss of mean {y:.6g} has second derivative "
            "{b:.6g} at 0; it has to be above 0", **of)  # fmt: skip
    require(np.abs(z) <= 1e-13 * (1 + 2 * np.abs(y)), "the loss of mean {y:.6g} moved to itself is "
            "{z:.6g}; it has to be 0", **of)  # fmt: skip
    near = np.abs(s - of["k"]) <= 1e-6 * (np.abs(y - x) * bend + np.sqrt(bend))
    require(np.isfinite(v) & near, "the loss is not that of an exponential family: of mean {x:.6g} "
            "moved to {y:.6g} it is {d:.6g} with slope {s:.6g}, not {k:.6g}, (y - x) times its "
            "second derivative at y", **of)  # fmt: skip
    off = np.max(np.abs((up + down) / (bend * step**2) - 1))
    return f"{n} shifts: 0 for none, slope (y - x)/V(y); small ones off by {off:.1g} of the value"


def _means_hold(x: np.ndarray, means: np.ndarray, off: Any = None, but: Any = False) -> str:
    """The averages of rewards [K, n] are the means, `off` by few standard errors, but for some."""
    n, a = x.shape[1], x.mean(1)
    error = x.std(1) / n**0.5 + 1e-9 * np.abs(x).max(1) + 1e-300
    off = np.abs(a - means) / error if off is None else off
    require((off <= ERRORS) | but, f"mean {{m:.6g}}: rewards have mean {{a:.6g}} over {n} draws, "
            "{off:.1f} standard errors off", m=means, a=a, off=off)  # fmt: skip
    return f"their mean; seen is a bias of {(ERRORS + 3) / n**0.5:.2g} deviations"


def draws(world: World) -> str:
    """Rewards have the mean of their arm, and the likelihood ratio that the loss says.

    The average a of n rewards has n d(a, mu) > e^2/2 with probability 2 exp(-e^2/2) at most
    (Chernoff). W = dP_y/dP_mu(x) = exp(d(x, mu) - d(x, y)), so that f(W) has the same mean over
    rewards of mean y as W f(W) over those of mean mu. It is compared for f(W) = (1 + W)^-1 and
    (1 + W)^-3, whose averages are bounded, so that few rewards cannot decide.
    """
    k, n, rng = 5, world.draws, world.rng
    family, means = world.thing.for_arms(k), inside(world.thing, rng, k)
    x, at = drawn(instance_of(family, means), rng, n), ends_of(family)
    if at.size:
        some = instance_of(family, np.append(at, means[at.size :]))
        require(drawn(some, rng, n)[: at.size] == at[:, None],
                "rewards other than the mean, at an end of the range")  # fmt: skip
    said, least = f"n = {n} rewards at each of {k} means have ", 0.0
    if not is_exact(world.thing):
        return f"{said}{_means_hold(x, means)}; the law of the rewards is not checked"
    unit, d = per_pull(family, k), jax.jit(partial(divergence, family))
    said += _means_hold(x, means, np.sqrt(2 * n * unit * np.abs(d(x.mean(1), means))))
    for up, room in ((False, means - family.low), (True, family.high - means)):
        by = jax.jit(partial(family.reach, up=up))(family.kind(jnp.ones(k), means), RADIUS / unit)
        y = means + (1 if up else -1) * np.minimum(by, 0.9 * room)
        y = means if instance_of(family, y) is None else y
        s, r = (expit(unit[:, None] * np.asarray(d(z, means[:, None]) - d(z, y[:, None])))
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


def runs(world: World) -> str:
    """Whole runs with uniform sampling, and runs with EB-TCI whose rewards wait."""
    for shift in (0, -1, -2, 1, 2):
        means = means_at(world.thing, np.array([0.9, 0.0, -0.5, -1.0]) + shift)
        if (instance := instance_of(world.thing, means)) is not None:
            job = world.but(problem=BestArm(), instance=instance)
            return f"{whole_runs(job.but(rule=Uniform()))}; {waiting_runs(job.but(rule=EBTCI()))}"
    return "no runs: check refuses means that are far apart"


# Statistics and evidence.


def _walk(family: Any, problem: Any, tables: Any, arms: Any, x: Any, go: Any, weights: Any) -> Any:
    """Pull arms [T], each of K at the start, for rewards x [T, B], which enter where go [T, B].

    Gives statistics at last, and what a snapshot says of lane 0: of its counts, then of weights.
    """
    k = weights.shape[1]
    space = family.space(LaneOps(), jnp.eye(k), ())
    look = partial(Snapshot.of, family, problem, space)
    stats = jax.lax.fori_loop(k, len(arms), lambda s, stats: family.update(
        look(stats), jnp.broadcast_to(arms[s], x.shape[1:]), x[s], go[s]),
        family.start(space, problem, tables, x[:k]))  # fmt: skip
    seen = look(jax.tree.map(lambda x: x[..., 0], stats))
    values, shape, means = seen.evidence.values(), seen.shape, seen.means
    index, beta = jnp.arange(values.shape[0], dtype=jnp.int32), 0.9 * jnp.median(values)
    refuted = {"refuted": seen.evidence.refuted(beta)}
    if not shape.signs:
        _, rows = zip(*family.refuted_pairs(seen, ArmBlock(jnp.int32(0), k), beta), strict=True)
        refuted["refuted_pairs"] = jnp.stack(rows)[jnp.atleast_1d(shape.first)].reshape(-1)

    def at(w: Any) -> Any:
        under = seen.evidence.weighted(w)
        return under.values(), jax.vmap(under.gradient)(index)

    weights = jnp.concatenate([seen.stats.counts[None], weights])
    least = None if not is_exact(family) else jax.vmap(
        partial(_least, family, shape, means))(weights * per_pull(family, k))  # fmt: skip
    within = [family.interval(seen, means, jnp.asarray(x)) for x in BETAS]
    return dict(
        stats=stats, exists=shape.exists, means=means, beta=beta, values=values, refuted=refuted,
        weights=weights, least=least, under=jax.vmap(at)(weights),
        within=[jnp.stack(x) for x in zip(*within, strict=True)],
    )  # fmt: skip


def _least(family: Any, shape: Any, means: Any, w: Any) -> Any:
    """The least sums of losses over pieces, [Q], among a grid of points of their boundaries."""
    (a, b), k = (x[:, None] for x in shape.places()), len(means)
    off = jnp.maximum(shape.outside(PLAIN, means), 0)[:, None]
    grid = jnp.where(b == k, 1.0, jnp.where(a < k, GRID, 0.0))  # k is a level, which never moves
    down = off * grid
    m, w = jnp.append(means, shape.level or 0.0), jnp.append(w, 0)
    x, y = m[a] - down, m[b] + (off - down)
    sums = w[a] * divergence(family, m[a], x) + w[b] * divergence(family, m[b], y)
    within = (x >= family.low) & (y <= family.high) & ~jnp.isnan(sums)
    return jnp.min(jnp.where(within, sums, jnp.inf), 1)


def walks(world: World) -> str:
    """Statistics are those of the rewards, and the evidence is the least sum of losses.

    At weights w the gradient g of a piece has g . w = value(w), and g . w' >= value(w') at others:
    it is that of a concave function of degree 1. Intervals grow with beta, and invert the loss.
    """
    k, steps, cases, rng, exact = 4, 60, 3, world.rng, is_exact(world.thing)
    family, at = world.thing.for_arms(k), ends_of(world.thing)
    (level,) = inside(family, rng, 1)
    slack = 0.1 * min(1.0, family.high - family.low) if family.slack else 0.0
    problems = TopM(2), Thresholding(float(level)), BestArm(epsilon=slack)
    for problem in problems:
        instance: Any = instance_of(family, np.sort(inside(family, rng, k, at)))
        tables = jax.tree.map(lambda x: x[0], family.tables(instance))
        walk = jax.jit(partial(_walk, family, problem))
        for _ in range(cases):
            arms = np.append(np.arange(3 * k) % k, rng.integers(0, k, steps - 3 * k))
            go = (rng.random((steps, 2)) < 0.8) | (np.arange(steps) < 3 * k)[:, None]
            weights = rng.dirichlet(np.ones(k), 3) + 1e-3
            weights[2] = [1e-12, 1, 1, 1e-12] if exact else weights[2]
            x = drawn(instance, rng, 2 * steps).reshape(k, steps, 2)[arms, np.arange(steps)]
            found = jax.device_get(walk(tables, arms.astype(np.int32), x, go, weights))
            took = (arms[:, None] == np.arange(k))[..., None] & go[:, None]
            n, sums = took.sum(0), np.where(took, x[:, None], 0).sum(0)
            for name, own in dict(t=n.sum(0), counts=n, reward_sums=sums, means=sums / n).items():
                have = getattr(found["stats"], name)
                same = np.allclose(have, own, rtol=1e-12, atol=1e-11)
                require(same, f"after start and update {name} is {have}, not {own}")
            _evidence_holds(family, f"{problem!r}: ", SimpleNamespace(**found))
    said = f"{cases * len(problems)} walks of {steps} pulls keep counts, sums and means; values of "
    said += "degree 1, gradients are cuts; intervals hold the means, and grow with beta"
    return f"{said}; values are the least sums of losses" if exact else said


def _evidence_holds(family: Any, said: str, seen: Any) -> None:
    """Values, gradients, refuted pieces and intervals agree with each other, and with losses."""
    there, means, exact = seen.exists, seen.means, seen.least is not None
    values, slopes = (x[:, there] for x in seen.under)
    for w, value, slope in zip(seen.weights, values, slopes, strict=True):
        require(np.isfinite(slope), f"{said}a gradient is not finite at weights {w}")
        same = np.allclose(slope @ w, value, rtol=1e-9, atol=1e-12)
        require(same, f"{said}a gradient is not that of its values: w . gradient is another")
        cut = slope @ seen.weights.T >= values.T * (1 - 1e-9) - 1e-12
        require(cut, f"{said}the gradient at weights {w} is no cut at other weights")
    same = not exact or np.allclose(seen.values[there], values[0], rtol=1e-12)
    require(same, f"{said}the evidence is not the LLR at the counts")
    for name, ours in seen.refuted.items():
        require((ours == (seen.values > seen.beta))[there],
                f"{said}{name} is not where the value is above beta = {seen.beta}")  # fmt: skip
    bound, (sign, end) = np.array(seen.within), np.array(
        [[-1, 1], [family.low, family.high]])[..., None, None]  # fmt: skip
    by = sign * (bound - means)
    good = (by >= 0) & ((np.diff(by, axis=1, prepend=-1) > 0) | (bound == end))
    require(good, f"{said}bounds at beta = {BETAS} are {bound}; each has to be farther from the "
            f"means {means} than the one before")  # fmt: skip
    if not exact:
        return
    radius = np.array(BETAS)[:, None] / (seen.weights[0] * per_pull(family, len(means)))
    d = jax.jit(partial(divergence, family))
    low, high = (np.asarray(d(means, means + sign * by * x)) for x in (1 - 1e-6, 1 + 1e-6))
    out = by * (1 + 1e-6) >= sign * (end - means)
    right = (low <= radius * (1 + 1e-9)) & (out | (high >= radius * (1 - 1e-9)))
    require(right, "mean {m:.6g}: the bound {b:.9g} has loss {d:.9g}, not the radius {r:.9g}",
            m=means, b=bound, d=low, r=radius)  # fmt: skip
    most, least = seen.weights.max(1)[:-1, None], seen.least[:-1, there]  # the last are extreme
    right = np.abs(values[:-1] - least) <= 1e-6 * least + 1e-12 * most
    require(right, said + "the evidence is not that of the losses: it is {v:.9g}, and {x:.9g} on a "
            "grid", v=values[:-1], x=least)  # fmt: skip


def mixtures(world: World) -> str:
    """Each M_j is at most the likelihood ratio, convex, and has mean 1 at most over rewards.

    A test by mixtures is proven if M_j(mu) has mean 1 at most over rewards of mean mu, and if
    the infimum over a common mean is found, for which log M_j must be convex, or least at the
    estimate. M_j is cut off at 10 before it is averaged, as its square has no mean.
    """
    k, many, seen, rng = 5, world.draws // 4, 0.0, world.rng
    family, strengths = world.thing.for_arms(k), Grid().strengths
    units, curve = per_pull(family, k), family.convex_in

    @partial(jax.jit, static_argnums=0)
    @partial(jax.vmap, in_axes=(None, 0, 0))
    def log_m(pulls: int, m: Any, at: Any) -> Any:
        """log M_j [K, J] and the log-likelihood ratio [K, 1] after some pulls of each arm."""
        n = jnp.full_like(m, pulls)
        logs = each(family, family.stat_of(n, m, None), at, strengths)
        return logs, (n * units * divergence(family, m, at))[:, None]

    for pulls in (1, 8, 32):
        truth = inside(family, rng, k)
        x = drawn(instance_of(family, truth), rng, many * pulls)
        means = x.reshape(k, many, pulls).mean(-1).T
        few = means[:100]
        u, v = (inside(family, rng, few.size).reshape(few.shape) for _ in range(2))
        middle = 2 / (1 / u + 1 / v) if curve == "reciprocal" else (u + v) / 2
        (first, cost), (between, _), (last, _) = (
            map(np.asarray, log_m(pulls, few, x)) for x in (u, middle, v))  # fmt: skip
        shape, have = (*few.shape, len(strengths)), first.shape
        require(have == shape, f"log_mixture returns an array of {have}; it has to be {shape}")
        m, u, v = (x[..., None] for x in (few, u, v))
        said = f"log_mixture({pulls}, {{m:.6g}}, {{u:.6g}}) = {{x:.9g}}; "
        require(np.isfinite(first), said + "it has to be finite", m=m, u=u, x=first)
        rounding = 1e-11 * (pulls + np.abs(first) + np.abs(last) + cost)
        words = "the largest log-likelihood ratio, n d(m, u), is {c:.9g}"
        require(first <= cost + rounding, said + words, m=m, u=u, x=first, c=cost)
        holds, words = between <= (first + last) / 2 + rounding, f"is not convex in the {curve}"
        if curve is None:
            words = "does not fall up to that mean and rise from there"
            down = np.where(np.abs(u - m) < np.abs(v - m), first - last, last - first)
            holds = (down <= rounding) | ((u - m) * (v - m) < 0)
        words = f"log_mixture of {pulls} pulls of mean {{m:.6g}} {words}, see "
        require(holds, words + "{u:.6g} and {v:.6g}", m=m, u=u, v=v)
        logs, _ = log_m(pulls, means, np.broadcast_to(truth, means.shape))
        cut = np.exp(np.minimum(logs, np.log(10.0)))
        average, error = cut.mean(0), cut.std(0) / many**0.5
        words = f"exp(log_mixture) has mean {{a:.6g}} over {pulls} rewards of the tested mean "
        words += "{m:.6g}; it has to be at most 1, and the standard error is {e:.2g}"
        require(average <= 1 + ERRORS * error + 1e-11 * pulls, words, a=average,
                m=truth[:, None], e=error)  # fmt: skip
        seen = max(seen, (ERRORS + 3) * error.max())
    form = f"convex in the {curve}" if curve else "least at the estimate"
    return (f"1500 mixtures: at most the likelihood ratio, {form}; n = {many} averages over "
            f"rewards of the tested mean are 1 at most; seen is an excess of {seen:.2g}")


# The laws of the source of an instance's rewards; those of its family are its own.


def source_draws(world: World) -> str:
    """First rewards have the mean of their arm; so have those until it is used up, exactly."""
    instance, n, longest, rng = world.thing, world.draws, 20_000, world.rng
    source, means = instance.source, instance.means
    first = drawn(instance, rng, n, 0)
    said = _means_hold(first, means, but=np.ptp(first, 1) == 0)
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


def source_runs(world: World) -> str:
    """Whole runs with uniform sampling; none of a source with one run."""
    try:
        world.thing.source.check_runs(np.arange(2), 1)
    except ArgumentError as error:
        return f"no runs: {error.allowed}"
    return whole_runs(world.but(problem=BestArm(), rule=Uniform(), instance=world.thing))
