"""Lower bounds on mean samples, how far runs were from them, and searches for extreme T*."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import checks, scope
from jaxelim.bounds.optimal import Complexity
from jaxelim.errors import ArgumentError

Threshold = Callable[[Any, Any], Any]

_LATEST = 2**60  # a threshold that grows too fast for any time up to here is refused


def heuristic(t, delta):
    """beta(t, delta) = log((1 + t)/delta), the threshold of the paper's experiments."""
    return math.log((1 + t) / delta)


def sample_bound(delta, information):
    """The lower bound log(1/(2.4 delta))/H* on mean samples of delta-correct procedures.

    It holds where one answer is right; for others see `kl_bound`.

    Args:
        delta: error probabilities in (0, 1), any shape.
        information: a `Complexity`; or H* per sample, numbers above 0 (not T* = 1/H*), which
            broadcast against delta.

    Returns:
        float64 samples; negative where delta > 1/2.4, where the bound is empty.

    Raises:
        ArgumentError: delta or information is out of range.

    Reference: Tirinzoni & Degenne (2022), section 2.
    """
    delta, value = _checked(delta, information)
    return np.log(1 / (2.4 * delta)) / value


def kl_bound(delta, information, answers: int = 1):
    """The lower bound kl(delta, 1 - delta)/H*, the sharper form of `sample_bound`.

    kl is the Kullback-Leibler divergence between Bernoulli distributions. With n right
    answers, as of `BestArm(epsilon=)`, it is kl((1 - delta)/n, delta)/H*: one of them has
    at least that probability. It is 0 where (1 - delta)/n < delta.

    Args:
        delta, information: as there; Returns and Raises too.
        answers: the number n of right answers.
    """
    delta, value = _checked(delta, information)
    answers = checks.integer("answers", answers, low=1)
    if answers == 1:
        return (1 - 2 * delta) * np.log((1 - delta) / delta) / value
    p = np.maximum((1 - delta) * (1 / answers), delta)  # n may be beyond the floats
    return (p * np.log(p / delta) + (1 - p) * np.log((1 - p) / (1 - delta))) / value


def practical_time(delta: float, information, threshold: Threshold = heuristic) -> int:
    """The first integer t >= beta(t, delta)/H*.

    LLR stopping ends a run without noise that pulls in proportions w* there. With noise
    the piece of least evidence decides. Where many pieces bind at w*, mean times are
    longer; their ratio to this tends to 1 as delta tends to 0.

    Args:
        delta: error probability in (0, 1).
        information: a `Complexity` of one instance, or H* per sample, above 0.
        threshold: beta, a callable of (t, delta).

    Raises:
        ArgumentError: an argument is none of these, or there is no such t up to 2^60.
    """
    delta = checks.real("delta", delta, low=0, high=1, open=True)
    _, value = _checked(delta, information)
    if np.ndim(value):
        allowed = "a Complexity of one instance, or one number"
        raise ArgumentError("information", information, allowed)
    if not callable(threshold):
        raise ArgumentError("threshold", threshold, "a callable of (t, delta)")
    return first_time(lambda t: beta_at(threshold, t, delta) / float(value), start=1)


def efficiency(samples, pulls, delta, value, allocation) -> tuple[np.ndarray, np.ndarray]:
    """Compare stopping times with the lower bound, and pulls with the optimal allocation.

    Args:
        samples: [...] stopping times.
        pulls: [..., K] pulls at the stop.
        delta: error probabilities, broadcast against samples.
        value: H*, broadcast against samples.
        allocation: [K] w*, broadcast against pulls.

    Returns:
        samples over log(1/(2.4 delta))/H*, [...]: 1 is the bound. And the total
        variation distance between pulls/samples and w*, [...] in [0, 1]: half the sum
        of their absolute differences.

    Raises:
        ArgumentError: samples below 1, or a shape of pulls that does not fit.
    """
    samples = checks.real_array("samples", samples)
    pulls = checks.real_array("pulls", pulls)
    if (samples < 1).any():
        raise ArgumentError("samples", samples, "stopping times >= 1")
    if pulls.shape[:-1] != samples.shape:
        allowed = f"shape {samples.shape} and an axis of arms"
        raise ArgumentError("pulls", pulls, allowed, f"its shape is {pulls.shape}")
    distance = np.sum(np.abs(pulls / samples[..., None] - allocation), axis=-1) / 2
    return samples / sample_bound(delta, value), distance


def in_words(delta: float, solved: Complexity, right: int = 1) -> list[str]:
    """H* and T*, the lower bounds at delta of `right` right answers, the largest weights: lines."""
    kl = float(kl_bound(delta, solved, right))
    if right == 1:
        bound = float(sample_bound(delta, solved))
        words = (f"at delta = {delta}: E[tau] >= log(1/(2.4 delta))/H* = {bound:.1f}, "
                 f"kl(delta, 1 - delta)/H* = {kl:.1f}")  # fmt: skip
    else:
        words = (f"{right} right answers: as delta falls, E[tau] >= T* log(1/delta) (1 + o(1)); "
                 f"at delta = {delta}: E[tau] >= kl((1 - delta)/{right}, delta)/H* = {kl:.1f}"
                 )  # fmt: skip
    units = "T* and the bounds are in units of cost, weights are shares of it"
    if solved.costs is None:
        units = "practical bound, the first t >= T* log((1 + t)/delta): "
        units += str(practical_time(delta, solved))
    weights = solved.allocation
    largest = ", ".join(f"{k}: {weights[k]:.4f}" for k in weights.argsort()[::-1][:10])
    return [
        f"H* = {float(solved.value):.8g} per {solved.unit}, T* = {float(solved.time):.6g}, "
        f"duality gap {float(solved.gap):.1e} H*",
        words, units, f"largest weights: {largest}",
    ]  # fmt: skip


def _checked(delta, information):
    """delta in (0, 1) and H* above 0, of any shapes that broadcast."""
    delta = checks.deltas(delta) if np.ndim(delta) else float(checks.deltas(delta)[0])
    if isinstance(information, Complexity):
        return delta, information.value
    value = checks.real_array("information", information)
    if (value <= 0).any():
        raise ArgumentError("information", information, "a Complexity, or H* per sample above 0")
    return delta, value


def first_time(needed: Callable[[int], float], start: int = 2) -> int:
    """The first integer t >= start with t >= needed(t), for `needed` concave in t."""
    if start >= needed(start):
        return start
    low, high = start, 2 * start
    while high < needed(high):
        low, high = high, 2 * high
        if high > _LATEST:
            allowed = "one that grows slower than t H*"
            raise ArgumentError("threshold", needed, allowed, f"no time up to {_LATEST}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle >= needed(middle) else (middle, high)
    return high


def beta_at(threshold: Threshold, t: float, delta: float) -> float:
    """beta(t, delta), checked to be a finite number >= 0."""
    # Floats, in float64: in 32 bits jax.numpy would wrap large integers and lose digits.
    with scope.engine():
        value = float(threshold(float(t), float(delta)))
    if not (math.isfinite(value) and value >= 0):
        note = f"{value} at t = {t}, delta = {delta}"
        raise ArgumentError("threshold", threshold, "finite values >= 0", note)
    return value


class Found(NamedTuple):
    """What `extreme_time` found."""

    point: np.ndarray  # [..] the best point of all steps
    time: float  # T* there
    times: np.ndarray  # [steps] T* along the search


def extreme_time(
    time: Callable[[jax.Array], Any], start: Any, project: Callable[[jax.Array], Any], *,
    largest: bool = False, steps: int = 100, rate: float = 0.1,
) -> Found:  # fmt: skip
    """Search for a local minimum of T*, or a maximum, by projected gradient steps on log T*.

    T* has kinks, where its gradient does not vanish. So the length of a step follows a schedule
    that falls to zero (cosine). It is not set by coordinate as in Adam: such steps, projected,
    stop at the boundary away from any optimum. The tutorial on allocations has recipes.

    Args:
        time: T* of a point; a pure function of JAX arrays, as `1/optimum(..).value`.
        start: the first point, [..].
        project: the closest allowed point, as of `optax.projections`.
        largest: whether to look for a maximum.
        steps: number of gradient steps.
        rate: length of the first step, Euclidean.

    Returns:
        A `Found`. `complexity` certifies T* of the instance found.

    Raises:
        ArgumentError: an argument is out of range, or T* of the start is not finite.
    """
    import optax  # slow to import

    steps = checks.integer("steps", steps, low=1)
    rate = checks.real("rate", rate, low=0, open=True)
    first = checks.real_array("start", start)
    sign = -1.0 if largest else 1.0
    with scope.engine(), jax.numpy_dtype_promotion("standard"):
        rule = optax.chain(
            optax.normalize_by_update_norm(eps=1e-300),
            optax.sgd(optax.cosine_decay_schedule(rate, steps)),
        )

        def step(carry, _):
            x, state, best, least = carry
            value, slope = jax.value_and_grad(lambda x: sign * jnp.log(time(x)))(x)
            better = value < least
            best, least = jnp.where(better, x, best), jnp.where(better, value, least)
            change, state = rule.update(slope, state, x)
            return (project(x + change), state, best, least), jnp.exp(sign * value)

        @jax.jit
        def run(x):
            carry = x, rule.init(x), x, jnp.asarray(jnp.inf)
            (_, _, best, least), times = jax.lax.scan(step, carry, None, length=steps)
            return best, jnp.exp(sign * least), times

        point, reached, times = jax.device_get(run(jnp.asarray(first)))
    if not np.isfinite(reached):
        raise ArgumentError("start", start, "a point with one correct answer, where T* is finite")
    return Found(point, float(reached), times)
