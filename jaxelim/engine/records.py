"""Records of runs: outcomes, pulls at stops, the log of a trace."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.engine.state import Lane, Log, Outcome, Pending, Spec


def outcome(spec: Spec, lane: Lane) -> Outcome:
    """The outcomes of lanes whose runs are over."""
    left = lane.record
    pulls = lane.stats.counts[None, None] if left.pulls is None else left.pulls
    times = []
    for s, stopping in enumerate(spec.stopping):
        eliminated = lane.observers[s].times() if stopping.eliminates else None
        if eliminated is not None:
            until = jax.vmap(lambda times, at: jnp.where(times <= at, times, 0))
            eliminated = until(eliminated, left.closed_at[s])
        times.append(eliminated)
    kept = left.estimates
    if "means" in spec.record and spec.observers == 1:  # rewards end with the run
        kept = jax.tree.map(lambda x: x[None, None], estimates(lane.stats, lane.pending))
    out = Outcome(
        item=lane.run.item,
        samples=left.closed_at,
        stopped=left.stopped,
        answer=left.answers,
        pulls=pulls.astype(jnp.int32),
        tests_stopping=left.tests,
        tests_sampling=left.work[0],
        solves=left.work[1] if len(left.work) > 1 else None,
        times=tuple(times),
        degenerate=spec.family.degenerate(lane.stats),
        estimates=kept,
    )
    return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), out)


def estimates(stats: Statistics, pending: Pending | None) -> dict[str, Array]:
    """What a run estimates of its arms, by name, and from how many rewards: [K] each.

    The number of rewards is that of pulls where none is pending, and then is not kept.
    """
    names = ("means", "variances") if hasattr(stats, "variances") else ("means",)
    known = {name: getattr(stats, name) for name in names}
    return known if pending is None else {**known, "entered": pending.entered.counts}


def pulls_at_stop(lane: Lane, pulled: Array, start: Array, opened: Array) -> Lane:
    """Write the counts at each observer's stop in this chunk, into the lane at its end.

    They are the counts at the end of the chunk, less the pulls since the stop. `pulled` [T, B]
    has the arm of each step, or -1. At the start of the chunk t was `start` [B], and the
    observers `opened` [S, D, B] were open.
    """
    k, record = lane.stats.counts.shape[0], lane.record
    drawn = (pulled >= 0).astype(jnp.int32)
    before = start + jnp.cumsum(drawn, 0) - drawn
    counts = lane.stats.counts.astype(jnp.int32)
    closed = opened & (record.closed_at > 0)

    def at_stop(x):
        pulls, closed, at = x

        def since():
            later = (pulled >= 0) & (before >= at)
            arms = jnp.arange(k, dtype=pulled.dtype)[None, :, None]
            hit = (pulled[:, None] == arms) & later[:, None]
            return counts - jnp.sum(hit, 0, dtype=jnp.int32)

        late = jnp.any(closed & (at < lane.stats.t))
        now = jax.lax.cond(late, since, lambda: counts)
        return jnp.where(closed, now, pulls)

    of_observers = jax.tree.map(
        lambda x: x.reshape((-1, *x.shape[2:])), (record.pulls, closed, record.closed_at)
    )
    pulls = jax.lax.map(at_stop, of_observers).reshape(*record.closed_at.shape[:2], k, -1)
    return dataclasses.replace(lane, record=dataclasses.replace(record, pulls=pulls))


def logged(spec: Spec, lane: Lane, arm: Array, reward: Array, seen: Snapshot, log: Log) -> Log:
    """Write this step of lane 0 to the log."""
    t, end = seen.stats.t[0], spec.log - 1
    if spec.stopping[0].eliminates:
        pieces = jax.tree.map(lambda x: x[0], lane.observers[0])
    else:
        pieces = seen.problem.pieces(seen)
    left = pieces.remaining(seen.lanes)
    at = jnp.where(lane.stats.t[0] > t, t, end)
    put = jax.lax.dynamic_update_index_in_dim
    return dataclasses.replace(
        log,
        arm=put(log.arm, arm[0], at, 0),
        reward=put(log.reward, reward[0], at, 0),
        remaining=put(log.remaining, left[0], t, 0),
    )
