"""Numbers of a run that are not finite, which end it and fail the call.

The estimates of all lanes are read at the end of each chunk: a reward that was not finite
has left its arm without a finite estimate. A user's family or problem may give such
numbers at times only. In its runs each snapshot is read, and of a family each reward.
"""

import dataclasses

import jax.numpy as jnp
from jax import Array

from jaxelim.checks import shipped
from jaxelim.contracts.views import View
from jaxelim.engine.state import Lane, Spec
from jaxelim.families.draws import fold

REWARD, MEANS, EVIDENCE, INTERVAL, POSTERIOR = range(1, 6)
"""Values of `Fault.number`."""


def seen(spec: Spec, view: View, lane: Lane, live: Array) -> tuple[Array, Array]:
    """`Fault.number` after this snapshot, [B], and which lanes are live without one, [B]."""
    if shipped(spec.family) and shipped(spec.problem):
        return lane.fault.number, live
    faults = {
        MEANS: ~jnp.isfinite(view.means),
        EVIDENCE: view.shape.exists & ~jnp.isfinite(view.evidence.values()),
    }
    if not shipped(spec.family):
        faults |= _asked_of_the_family(spec, view)
    fault = lane.fault.number
    for code, bad in faults.items():
        fault = jnp.where((fault == 0) & live & view.lanes.any(bad), code, fault)
    return fault, live & (fault == 0)


def _asked_of_the_family(spec: Spec, view: View) -> dict[int, Array]:
    """Where other numbers that the rule asks of the family are not as they must be: [K, B]."""
    family, needs, bad = view.family, spec.rule.needs(view.family, view.problem), {}
    if "interval" in needs:
        beta = jnp.log(view.time) if view.beta is None else view.beta
        interval = family.interval(view, view.means, beta)
        bad[INTERVAL] = jnp.isnan(interval.lower) | jnp.isnan(interval.upper)
    if "posterior" in needs and view.key is not None:
        # A rule's own first draw, where it takes its keys from `fold`.
        drawn = family.posterior(fold(view.key, 0), view.counts, view.means)
        bad[POSTERIOR] = ~jnp.isfinite(drawn)
    return bad


def sampled(spec: Spec, lane: Lane, go: Array, reward: Array) -> Lane:
    """The lanes after a sample; `go` [B] bool: whether there is one."""
    if shipped(spec.family):
        return lane
    return _ended(lane, go & ~jnp.isfinite(reward), REWARD)


def begun(lane: Lane, rewards: Array) -> Lane:
    """The lanes at their first check; rewards [n K, B]."""
    return _ended(lane, ~lane.done & jnp.any(~jnp.isfinite(rewards), 0), REWARD)


def after_chunk(spec: Spec, lane: Lane) -> Lane:
    """The lanes at the end of a chunk."""
    taken = lane.run.item < spec.execution.queue
    return _ended(lane, taken & jnp.any(~jnp.isfinite(lane.stats.means), 0), MEANS)


def _ended(lane: Lane, bad: Array, code: int) -> Lane:
    """The lanes, ended where `bad` [B] holds."""
    number = lane.fault.number
    fault = dataclasses.replace(lane.fault, number=jnp.where(bad & (number == 0), code, number))
    return dataclasses.replace(lane, fault=fault, done=lane.done | bad)
