"""The laws of a one-parameter reward family, each checked on numbers: for `jaxelim.testing`.

Every check takes the family and a generator, raises `ContractError` at the first law that is
broken, and returns a line for the report.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.errors import ArgumentError
from jaxelim.evidence.arms import End, losses
from jaxelim.families import OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.numerics.roots import jet
from jaxelim.problems import BestArm
from jaxelim.testing.report import require

Generator = np.random.Generator
ERRORS = 7
"""Standard errors by which an average may be off: by luck with probability below 1e-9."""


def law(holds: Any, sentence: str, **columns: Any) -> None:
    """A law over arrays: the sentence is formatted with the first entries that break it."""
    names, arrays = list(columns), np.broadcast_arrays(holds, *columns.values())
    if not arrays[0].all():
        place = np.argmin(arrays[0])
        entries = (x.ravel()[place] for x in arrays[1:])
        require(False, sentence.format(**dict(zip(names, entries, strict=True))))


def inside(family: OneParameter, rng: Generator, n: int) -> np.ndarray:
    """Means inside the range that `check` allows: [n].

    Raises:
        ContractError: `check` refuses most means, so that eight draws of n have fewer than n.
    """
    kept = np.empty(0)
    for _ in range(8):
        means = _inside(family, rng, n)
        kept = np.concatenate([kept, means if allowed(family, means) else _allowed(family, means)])
        if kept.size >= n:
            return kept[:n]
    require(False, "check refuses means inside the range, and most of those drawn")
    return kept


def allowed(family: OneParameter, means: np.ndarray) -> bool:
    """Whether `check` allows these means."""
    try:
        of(family, means if len(means) > 1 else np.repeat(means, 2))
    except ArgumentError:
        return False
    return True


def _allowed(family: OneParameter, means: np.ndarray) -> np.ndarray:
    return np.array([mean for mean in means if allowed(family, np.array([mean]))])


def of(family: OneParameter, means: Any) -> Instance:
    """An instance of these means [K], the family's settings repeated for K arms."""
    return Instance.unstructured(means, family.for_arms(len(means)))


def _inside(family: OneParameter, rng: Generator, n: int) -> np.ndarray:
    low, high, z = family.low, family.high, np.clip(rng.normal(size=n), -3, 3)
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) / (1 + np.exp(-2 * z))
    if np.isfinite(low):
        return low + np.exp(1.5 * z)
    return high - np.exp(1.5 * z) if np.isfinite(high) else 3 * z


def ends(family: OneParameter) -> np.ndarray:
    """The ends of the range that are means."""
    inner = inside(family, np.random.default_rng(0), 1)[0]
    means = []
    for end in (family.low, family.high):
        if np.isfinite(end) and allowed(family, np.array([end, inner])):
            means.append(end)
    return np.array(means)


def with_ends(family: OneParameter, rng: Generator, n: int) -> np.ndarray:
    """Means inside the range; where its ends are means, a quarter of them ends: [n]."""
    means, at = inside(family, rng, n), ends(family)
    if at.size:
        means[: n // 4] = rng.choice(at, n // 4)
    return rng.permutation(means)


def _numbers(f: Callable, *arrays: Any) -> Any:
    """A function of arrays, compiled; NumPy out."""
    return jax.tree.map(np.asarray, jax.jit(f)(*map(jnp.asarray, arrays)))


def _natures(family: OneParameter, instance: Instance) -> Any:
    """Of a single instance."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[0]), family.nature(instance))


def _noise(family: OneParameter, rng: Generator, shape: Any) -> np.ndarray:
    return rng.random(shape) if family.noise == "uniform" else rng.standard_normal(shape)


def stat(family: OneParameter, means: Any) -> Any:
    """Statistics of one pull with these means."""
    return family.kind(jnp.ones_like(means), means)


def divergence(family: OneParameter, x: Any, y: Any) -> Array:
    """d(x, y), the loss of the shift y - x."""
    return family.loss(stat(family, x), y - x)


def variance(family: OneParameter, y: Any) -> Array:
    """V(y): 1 over the second derivative of the loss in the shift, at 0."""
    return 1 / jet(lambda by: family.loss(stat(family, y), by), jnp.zeros_like(y))[2]


def bounds(family: OneParameter, mean: Any, radius: Any) -> tuple[Array, Array]:
    """The ends of {y : d(mean, y) <= radius}."""
    mean, radius = jnp.broadcast_arrays(mean, radius)
    down, up = (family.reach(stat(family, mean), radius, side) for side in (False, True))
    return mean - down, mean + up


def check_loss(family: OneParameter, rng: Generator) -> str:
    """That the loss is a divergence of an exponential family."""
    n = 400
    x, y, at = with_ends(family, rng, n), inside(family, rng, n), ends(family)
    x[::7] = y[::7]
    v = _numbers(lambda y: variance(family, y), y)
    good = (v > 0) & np.isfinite(v)
    said = "the loss of mean {y:.6g} has second derivative 1/{v:.6g} at 0; it has to be above 0"
    law(good, said, y=y, v=v)
    nearest = np.minimum(y - family.low, family.high - y)
    reach = np.where(np.isfinite(nearest), nearest, np.sqrt(v))
    step = 1e-4 * reach

    def all_of(x, y, step):
        def d(x, y):
            return divergence(family, x, y)

        value, slope = jax.jvp(lambda y: d(x, y), (y,), (jnp.ones_like(y),))
        return value, d(y, y), (d(x, y + step) - d(x, y - step)) / (2 * step), slope

    d, zero, slope, own = _numbers(all_of, x, y, step)
    rounding = 1e-13 * (1 + np.abs(x) + np.abs(y))
    columns = dict(x=x, y=y)
    said = "the loss of mean {x:.6g} moved to {y:.6g} is {d:.6g}; it has to be "
    law(np.isfinite(d), said + "finite inside the range", **columns, d=d)
    law(np.abs(zero) <= rounding, said + "0", x=y, y=y, d=zero)
    law(d >= -rounding, said + "at least 0", **columns, d=d)
    law((np.abs(x - y) < 1e-3 * reach) | (d > 0), said + "above 0", **columns, d=d)
    known = (y - x) / v
    allowed = 1e-6 * (np.abs(y - x) + reach) / v + rounding / step
    for way, ours in (("differences", slope), ("its derivative", own)):
        law(
            np.abs(ours - known) <= allowed,
            "the loss is not that of an exponential family: from x = {x:.6g} to y = {y:.6g} its "
            "slope is {slope:.6g} by " + way + ", and (y - x)/V(y) is {known:.6g}, V(y) one over "
            "the second derivative at y",
            **columns, slope=ours, known=known,
        )  # fmt: skip
    beside = y + 1e-6 * reach, y - 1e-6 * reach
    curvature = sum((x - y) ** 2 for x in beside) / (2 * v)  # what d sums to, nearly
    close = sum(_numbers(lambda x: divergence(family, x, y), x) for x in beside)
    worst = np.max(np.abs(close / curvature - 1))
    return (
        f"{n} pairs, {at.size} ends: at least 0, 0 for no shift alone, slope (y - x)/V(y); "
        f"near x = y off by {worst:.1g} of its value"
    )


def _least_cost(family: OneParameter, n_a: Array, a: Array, n_b: Array, b: Array, slack: float):
    """The least n_a d(a, u) + n_b d(b, u + slack) over b - slack < u < a, by golden section."""
    ratio = (5**0.5 - 1) / 2

    def cost(u):
        return n_a * divergence(family, a, u) + n_b * divergence(family, b, u + slack)

    def narrower(_, between):
        low, high = between
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        better = cost(left) < cost(right)
        return jnp.where(better, low, left), jnp.where(better, right, high)

    ends = jnp.maximum(b - slack, family.low), jnp.minimum(a, family.high - slack)
    low, high = jax.lax.fori_loop(0, 60, narrower, ends)
    return cost((low + high) / 2)


def pair(family: OneParameter, n_a: Any, a: Any, n_b: Any, b: Any, slack: float = 0.0) -> Array:
    """The LLR of {mu_b >= mu_a + slack}."""
    ends = End(stat(family, a), n_a), End(stat(family, b), n_b)
    of_a, of_b = losses(family, *ends, slack)
    return n_a * of_a + n_b * of_b


def check_pairs(family: OneParameter, rng: Generator) -> str:
    """The closest point of a pair, and the bounds of an arm."""
    n = 300
    b, a = np.sort([with_ends(family, rng, n), with_ends(family, rng, n)], axis=0)
    n_a, n_b = np.floor(10 ** rng.uniform(0, 4, (2, n)))
    said = "pulls {n_a:g} and {n_b:g}, means {a:.6g} and {b:.6g}: the LLR is {value:.9g}; "
    for slack in (0.0, 0.1 * min(1.0, family.high - family.low)):
        value, least = _numbers(
            lambda n_a, a, n_b, b, slack=slack: tuple(
                cost(family, n_a, a, n_b, b, slack) for cost in (pair, _least_cost)
            ),
            n_a, a, n_b, b,
        )  # fmt: skip
        least = np.where(a > b - slack, least, 0)
        law(
            np.abs(value - least) <= 1e-7 * least + 1e-12 * (n_a + n_b) * (1 + np.abs(a)),
            said + "the least sum of losses is {least:.9g}, by search, with slack " + f"{slack:g}",
            n_a=n_a, a=a, n_b=n_b, b=b, value=value, least=least,
        )  # fmt: skip
    tiny = 1e-12 + 0 * a  # rules look at weights as small
    for n_a, n_b in ((tiny, 1 + tiny), (1 + tiny, tiny)):
        value = _numbers(lambda *of: pair(family, *of), n_a, a, n_b, b)
        columns = dict(n_a=n_a, a=a, n_b=n_b, b=b, value=value)
        law(np.isfinite(value), said + "it has to be finite", **columns)
    mean, radius = with_ends(family, rng, n), 10 ** rng.uniform(-6, 1.3, n)
    ways = _numbers(lambda *of: bounds(family, *of), mean, radius)
    for name, end, bound in zip(("lower", "upper"), (family.low, family.high), ways, strict=True):
        _check_bound(family, mean, radius, name, end, bound)
    return f"{n} pairs cost the least by search, finite at the ends; {n} bounds invert the loss"


def _check_bound(
    family: OneParameter, mean: np.ndarray, radius: np.ndarray, name: str, end: float, y: np.ndarray
) -> None:
    upper = name == "upper"
    said = f"mean {{m:.6g}}, radius {{r:.6g}}: the {name} bound is {{y:.9g}}; "
    at = dict(m=mean, r=radius, y=y)
    good = np.isfinite(y) & ((y == mean) | ((y > mean) == upper))
    law(good, said + "it has to be finite, on its side of the mean", **at)
    spread = 8 * np.spacing(np.maximum(np.abs(y), np.abs(mean)))  # a bound is mean -+ a distance
    last = end - spread if upper else end + spread
    last = np.where((mean == end) | ~np.isfinite(end), mean, last)
    inner = np.where(y == end, mean, y)
    d, of_last = _numbers(
        lambda *of: tuple(divergence(family, of[0], y) for y in of[1:]), mean, inner, last
    )
    v = _numbers(lambda y: variance(family, y), np.where(y == end, last, y))
    ulp = spread * np.abs(y - mean) / np.where(v > 0, v, 1)
    slack = 1e-7 * radius + 2 * ulp + 1e-12 * (1 + np.abs(mean) + np.abs(y))
    of_last = np.where(mean == end, 0, of_last)
    right = np.where(y == end, of_last <= radius + slack, np.abs(d - radius) <= slack)
    law(right, said + "there the loss is {d:.9g}, not the radius", **at, d=d)


def check_update(family: OneParameter, rng: Generator) -> str:
    """`start` and `update`."""
    k, b, steps = 3, 4, 40
    family = family.for_arms(k)
    means = inside(family, rng, k)
    means[: ends(family).size] = ends(family)
    instance, problem = of(family, means), BestArm()
    space, natures = family.space(LaneOps(), jnp.eye(k), ()), _natures(family, instance)
    tables = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[0]), family.tables(instance))
    lane = jnp.arange(b, dtype=jnp.int32)
    draw = jax.jit(lambda arm, z: family.draw(LaneOps(), natures, arm, lane * 0, z))
    update = jax.jit(lambda now, *x: family.update(Snapshot.of(family, problem, space, now), *x))

    def drawn(arm):
        noise = _noise(family, rng, b)
        return np.asarray(draw(jnp.asarray(arm, jnp.int32), jnp.asarray(noise)))

    first = np.stack([drawn(np.full(b, arm)) for arm in range(k)])
    now = jax.jit(lambda x: family.start(space, problem, tables, x))(jnp.asarray(first))
    counts, sums, t = np.ones((k, b)), first.copy(), np.full(b, k)
    _check_statistics(now, counts, sums, t, "start")
    for _ in range(steps):
        arm, go = rng.integers(0, k, b).astype(np.int32), rng.random(b) < 0.7
        reward, before = drawn(arm), now
        now = update(now, *map(jnp.asarray, (arm, reward, go)))
        counts[arm, lane] += go
        sums[arm, lane] += np.where(go, reward, 0)
        t = t + go
        _check_statistics(now, counts, sums, t, "update")
        for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(now), strict=True):
            stays = np.array_equal(np.asarray(x)[..., ~go], np.asarray(y)[..., ~go])
            require(stays, "update moves a number of a lane where go does not hold")
    return f"{steps} updates of {b} lanes keep counts, sums and means"


def _check_statistics(now: Statistics, counts, sums, t, method: str) -> None:
    expected = {"t": t, "counts": counts, "reward_sums": sums, "means": sums / counts}
    for name, known in expected.items():
        ours = getattr(now, name)
        good = ours is not None and np.allclose(ours, known, rtol=1e-12, atol=0)
        have = "None" if ours is None else np.asarray(ours).tolist()
        require(good, f"after {method} {name} is {have}; it has to be {known.tolist()}")
