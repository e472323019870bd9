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
from jaxelim.families import OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
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


def check_divergence(family: OneParameter, rng: Generator) -> str:
    """d, V, and that they belong together."""
    n = 400
    x, y, at = with_ends(family, rng, n), inside(family, rng, n), ends(family)
    x[::7] = y[::7]
    variance = _numbers(family.variance, y)
    good = (variance > 0) & np.isfinite(variance)
    law(good, "variance({y:.6g}) = {v:.6g}; it has to be a number above 0", y=y, v=variance)
    nearest = np.minimum(y - family.low, family.high - y)
    reach = np.where(np.isfinite(nearest), nearest, np.sqrt(variance))
    step = 1e-4 * reach

    def all_of(x, y, step):
        d = family.divergence
        return d(x, y), d(y, y), (d(x, y + step) - d(x, y - step)) / (2 * step)

    d, zero, slope = _numbers(all_of, x, y, step)
    rounding = 1e-13 * (1 + np.abs(x) + np.abs(y))
    said = "divergence({x:.6g}, {y:.6g}) = {d:.6g}; it has to be "
    law(np.isfinite(d), said + "finite for y inside the range", x=x, y=y, d=d)
    law(np.abs(zero) <= rounding, said + "0", x=y, y=y, d=zero)
    law(d >= -rounding, said + "at least 0", x=x, y=y, d=d)
    law((np.abs(x - y) < 1e-3 * reach) | (d > 0), said + "above 0", x=x, y=y, d=d)
    known = (y - x) / variance
    allowed = 1e-6 * (np.abs(y - x) + reach) / variance + rounding / step
    law(
        np.abs(slope - known) <= allowed,
        "divergence and variance do not belong together: at x = {x:.6g}, y = {y:.6g} dd(x, y)/dy "
        "is {slope:.6g} by differences, and (y - x)/V(y) is {known:.6g}",
        x=x, y=y, slope=slope, known=known,
    )  # fmt: skip
    if at.size:
        _check_ends(family, at, y[0])
    beside = y + 1e-6 * reach, y - 1e-6 * reach
    curvature = sum((x - y) ** 2 for x in beside) / (2 * variance)  # what d sums to, nearly
    close = sum(_numbers(family.divergence, x, y) for x in beside)
    worst = np.max(np.abs(close / curvature - 1))
    return (
        f"{n} pairs: d >= 0, 0 for x = y alone, dd/dy = (y - x)/V(y), right at the ends; "
        f"near x = y off by {worst:.1g} of its value"
    )


def _check_ends(family: OneParameter, at: np.ndarray, inner: float) -> None:
    def all_of(x, end):
        return family.divergence(x, end), family.divergence(end, end), family.variance(end)

    d, zero, variance = _numbers(all_of, np.full(at.shape, inner), at)
    said = "{y:g} is an end of the range, and divergence({x:.6g}, {y:g}) = {d:g}; it has to be "
    law(d == np.inf, said + "inf", x=inner, y=at, d=d)
    law(zero == 0, said + "0", x=at, y=at, d=zero)
    said = "variance({y:g}) = {v:g}; it has to be 0 at an end of the range"
    law(np.abs(variance) <= 1e-12 * (1 + np.abs(at)), said, y=at, v=variance)


def _least_cost(family: OneParameter, n_a: Array, a: Array, n_b: Array, b: Array) -> Array:
    """The least n_a d(a, u) + n_b d(b, u) over b < u < a, by golden section."""
    ratio = (5**0.5 - 1) / 2

    def cost(u):
        return n_a * family.divergence(a, u) + n_b * family.divergence(b, u)

    def narrower(_, between):
        low, high = between
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        better = cost(left) < cost(right)
        return jnp.where(better, low, left), jnp.where(better, right, high)

    low, high = jax.lax.fori_loop(0, 60, narrower, (b, a))
    return cost((low + high) / 2)


def check_cost(family: OneParameter, rng: Generator) -> str:
    """`pair` and `level`."""
    n = 300
    b, a = np.sort([with_ends(family, rng, n), with_ends(family, rng, n)], axis=0)
    n_a, n_b = np.floor(10 ** rng.uniform(0, 4, (2, n)))
    line, above = inside(family, rng, n), rng.random(n) < 0.5

    def all_of(n_a, a, n_b, b, line, above):
        pairs = family.pair(n_a, a, n_b, b), family.pair(n_a, b, n_b, a)
        levels = family.level(n_a, a, line, above), n_a * family.divergence(a, line)
        return *pairs, _least_cost(family, n_a, a, n_b, b), *levels

    value, other, least, level, side = _numbers(all_of, n_a, a, n_b, b, line, above)
    least = np.where(a > b, least, 0)
    rounding = 1e-12 * (n_a + n_b) * (1 + np.abs(a))
    said = "pair({n_a:g}, {a:.6g}, {n_b:g}, {b:.6g}) = {value:.9g}; "
    columns = dict(n_a=n_a, a=a, n_b=n_b, b=b)
    law(
        np.abs(value - least) <= 1e-7 * least + rounding,
        said + "the least n_a d(a, u) + n_b d(b, u) is {least:.9g}, by search",
        **columns, value=value, least=least,
    )  # fmt: skip
    law(other == 0, said + "it has to be 0 for a <= b", n_a=n_a, a=b, n_b=n_b, b=a, value=other)
    known = np.where((a > line) == above, side, 0)
    law(
        np.abs(level - known) <= 1e-9 * known,
        "level({n:g}, {a:.6g}, {line:.6g}, {above}) = {level:.9g}; n d(a, level), or 0 on that "
        "side, is {known:.9g}", n=n_a, a=a, line=line, above=above, level=level, known=known,
    )  # fmt: skip
    tiny = 1e-12 + 0 * a  # rules look at weights as small
    for n_a, n_b in ((tiny, 1 + tiny), (1 + tiny, tiny)):
        value = _numbers(family.pair, n_a, a, n_b, b)
        finite = np.isfinite(value)
        law(finite, said + "it has to be finite", n_a=n_a, a=a, n_b=n_b, b=b, value=value)
    return f"{n} pairs and levels: the least by search, finite at the ends"


def check_bounds(family: OneParameter, rng: Generator) -> str:
    """`bracket`, and the bounds that come of it."""
    n = 400
    mean, radius = with_ends(family, rng, n), 10 ** rng.uniform(-6, 1.3, n)
    brackets = _numbers(lambda *x: tuple(family.bracket(*x)), mean, radius)
    require(
        len(brackets) == 2 and all(x.shape == (n,) for x in brackets),
        f"bracket returns arrays of {[x.shape for x in brackets]}; it has to return two of {(n,)}",
    )
    sides = (("lower", family.low), ("upper", family.high))
    for (name, end), bracket in zip(sides, brackets, strict=True):
        _check_bracket(family, mean, radius, name, end, bracket)
    bounds = _numbers(family.bounds, mean, radius)
    for (name, end), bound in zip(sides, bounds, strict=True):
        _check_bound(family, mean, radius, name, end, bound)
    return f"{n} bounds invert d, each from a bracket at or beyond it"


def _at(family: OneParameter, mean: np.ndarray, y: np.ndarray, end: float, upper: bool) -> Any:
    """d(mean, y), its change by a rounding of y, and the last d before the end of the range."""
    last = mean if not np.isfinite(end) else np.where(mean == end, mean, _before(end, upper))
    inner = np.where(y == end, mean, y)

    def all_of(mean, inner, last):
        d = family.divergence
        return d(mean, inner), family.variance(inner), d(mean, last)

    d, variance, of_last = _numbers(all_of, mean, inner, last)
    ulp = 8 * np.spacing(np.abs(y)) * np.abs(y - mean) / np.where(variance > 0, variance, 1)
    return d, ulp + 1e-12 * (1 + np.abs(mean) + np.abs(y)), np.where(mean == end, 0, of_last)


def _check_bracket(
    family: OneParameter, mean: np.ndarray, radius: np.ndarray, name: str, end: float, y: np.ndarray
) -> None:
    upper = name == "upper"
    said = f"bracket({{m:.6g}}, {{r:.6g}}) has the {name} end {{y:.9g}}; it "
    at = dict(m=mean, r=radius, y=y)
    law(np.isfinite(y), said + "has to be finite", **at)
    law((y >= family.low) & (y <= family.high), said + "is out of the range of means", **at)
    near = np.abs(y - mean) <= 1e-12 * np.abs(mean)
    law(near | ((y > mean) == upper), said + "is on the wrong side of the mean", **at)
    d, rounding, of_last = _at(family, mean, y, end, upper)
    slack = 1e-7 * radius + rounding
    law(
        (y == end) | (d >= radius - slack),
        said + "is inside the bound: there d is {d:.9g}, below the radius", **at, d=d,
    )  # fmt: skip
    good = (y != end) | (of_last <= radius + slack)
    law(good, said + "is an end of the range, and the bound is not", **at)


def _check_bound(
    family: OneParameter, mean: np.ndarray, radius: np.ndarray, name: str, end: float, y: np.ndarray
) -> None:
    upper = name == "upper"
    said = f"bounds({{m:.6g}}, {{r:.6g}}) has the {name} bound {{y:.9g}}; "
    at = dict(m=mean, r=radius, y=y)
    good = np.isfinite(y) & ((y == mean) | ((y > mean) == upper))
    law(good, said + "it has to be finite, on its side of the mean", **at)
    d, rounding, of_last = _at(family, mean, y, end, upper)
    slack = 1e-7 * radius + rounding
    right = np.where(y == end, of_last <= radius + slack, np.abs(d - radius) <= slack)
    law(right, said + "there d is {d:.9g}, not the radius", **at, d=d)


def _before(end: float, upper: bool) -> float:
    """The last number inside, before an end of the range; not a subnormal one."""
    away = -1 if upper else 1
    return away * 1e-300 if end == 0 else float(np.nextafter(end, away * np.inf))


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
