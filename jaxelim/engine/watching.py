"""Numbers of a run that are not finite, which end it and fail the call.

The estimates of all lanes are read at the end of each chunk: a reward that was not finite
has left its arm without a finite estimate. A user's family or problem may give such
numbers at times only. In its runs each snapshot is read, and of a family each reward.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from jaxelim.checks import shipped
from jaxelim.contracts.views import View
from jaxelim.engine.state import Lane, Spec
from jaxelim.families.draws import fold

REWARD, MEANS, EVIDENCE, INTERVAL, POSTERIOR = range(1, 6)
"""Values of `Fault.number`."""


@dataclasses.dataclass(frozen=True)
class Watching:
    """Finds numbers that are not finite, for one spec."""

    spec: Spec

    def seen(self, view: View, lane: Lane, live: Array) -> tuple[Array, Array]:
        """`Fault.number` after this snapshot, [B], and which lanes are live without one, [B]."""
        family, any_of = self.spec.family, view.lanes.any
        if shipped(family) and shipped(self.spec.problem):
            return lane.fault.number, live
        faults = {
            MEANS: ~jnp.isfinite(view.means),
            EVIDENCE: view.shape.exists & ~jnp.isfinite(view.evidence.values()),
        }
        if not shipped(family):
            faults |= {code: look() for code, look in self._asked_of_the_family(view).items()}
        fault = lane.fault.number
        for code, bad in faults.items():
            fault = jnp.where((fault == 0) & live & any_of(bad), code, fault)
        return fault, live & (fault == 0)

    def _asked_of_the_family(self, view: View) -> dict[int, Callable[[], Array]]:
        """Where other numbers that the rule asks of the family are not as they must be: [K, B]."""
        family, looks = view.family, {}
        needs = self.spec.rule.needs(family, view.problem)

        def interval() -> Array:
            beta = jnp.log(view.time) if view.beta is None else view.beta
            interval = family.interval(view, view.means, beta)
            return jnp.isnan(interval.lower) | jnp.isnan(interval.upper)

        def posterior() -> Array:
            # A rule's own first draw, where it takes its keys from `fold`.
            assert view.key is not None
            return ~jnp.isfinite(family.posterior(fold(view.key, 0), view.counts, view.means))

        if "interval" in needs:
            looks[INTERVAL] = interval
        if "posterior" in needs and view.key is not None:
            looks[POSTERIOR] = posterior
        return looks

    def sampled(self, lane: Lane, go: Array, reward: Array) -> Lane:
        """The lanes after a sample; `go` [B] bool: whether there is one."""
        if shipped(self.spec.family):
            return lane
        return _ended(lane, go & ~jnp.isfinite(reward), REWARD)

    def begun(self, lane: Lane, rewards: Array) -> Lane:
        """The lanes at their first check; rewards [n K, B]."""
        return _ended(lane, ~lane.done & jnp.any(~jnp.isfinite(rewards), 0), REWARD)

    def after_chunk(self, lane: Lane) -> Lane:
        """The lanes at the end of a chunk."""
        taken = lane.run.item < self.spec.execution.queue
        return _ended(lane, taken & jnp.any(~jnp.isfinite(lane.stats.means), 0), MEANS)


def _ended(lane: Lane, bad: Array, code: int) -> Lane:
    """The lanes, ended where `bad` [B] holds."""
    number = lane.fault.number
    fault = dataclasses.replace(lane.fault, number=jnp.where(bad & (number == 0), code, number))
    return dataclasses.replace(lane, fault=fault, done=lane.done | bad)
