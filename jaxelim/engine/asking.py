"""Calls of the sampling rule on all lanes."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.cache import KEPT, Cache
from jaxelim.checks import shipped
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext, Reduced, Snapshot, Tree, View
from jaxelim.engine import watching
from jaxelim.engine.observing import Observing
from jaxelim.engine.one_lane import Traced
from jaxelim.engine.state import LANE_GROUP, Inputs, Run, of_run
from jaxelim.families import draws as random
from jaxelim.lanes import PLAIN, saturated, where
from jaxelim.returned import call

_SERVED = {False: LANE_GROUP, True: 1024}
"""Lanes that a call of `choose` serves; on a GPU, True, kernels take as long for 16 as for more."""


class Asking(Observing):
    """Calls the rule's methods on all lanes."""

    def view(
        self, inputs: Inputs, seen: Snapshot, run: Run, observers: tuple, sampling: Tree
    ) -> View:
        """What the rule sees."""
        spec, stats, elimination = self.spec, seen.stats, self.spec.elimination
        if elimination is not None and elimination.shared:
            sampling = jax.tree.map(lambda x: x[0], observers[0])
        t, delta, reads = stats.t + 1, run.delta[0], spec.rule.traits.reads
        # A rule that does not declare what it reads is refused: one trajectory serves all deltas.
        own: dict[str, Any] = dict.fromkeys(("chance", "key", "delta", "beta"))
        if "chance" in reads:
            own["chance"] = random.chance(inputs.key, run.index, t, spec.dtype)
        if "key" in reads:
            own["key"] = random.rule_key(inputs.key, run.index, t)
        reduced = Reduced(elimination=elimination, pieces=sampling)
        active, active_count = reduced.active(seen)
        if seen.decided is not None:
            seen = seen.undecided
            active = active & seen.shape.exists
            active_count = seen.lanes.sum(active)
        if "delta" in reads:
            own |= {"delta": delta, "beta": self.width(t, delta, stats)}
        own["stats"] = stats.of_one_run()
        own["check"] = dataclasses.replace(seen.check, live=None, since=None)
        known: dict[str, Any] = {x.name: getattr(seen, x.name) for x in dataclasses.fields(seen)}
        prepared = run.prepared if spec.per_lane_instances else of_run(None, inputs.prepared)
        return View(
            active=active, active_count=active_count, reduced=reduced, prepared=prepared,
            start=spec.initial_pulls * stats.means.shape[0], **known | own,
        )  # fmt: skip

    def ask(self, name: str, view: View, *state: Tree) -> Tree:
        """Call the rule's method on all lanes: directly if it is lanes-last, else under vmap."""
        return _asked((self.spec, name), (view, *state))((view, *state))

    def called(self, name: str, view: View, *state: Tree, by_vmap: bool | None = None) -> Tree:
        """`ask`, traced with every call; `by_vmap` goes before that of the spec."""
        spec, method = self.spec, partial(call, self.spec.rule, name)
        by_vmap = spec.by_vmap if by_vmap is None else by_vmap
        if by_vmap and name in ("choose", "probe") and not shipped(spec.rule):
            method = watching.watched(method)
        if not by_vmap:
            if not spec.per_lane_instances:  # shared arrays get an axis of lanes to broadcast
                prepared = jax.tree.map(lambda x: x[..., None], view.prepared)
                view = dataclasses.replace(view, prepared=prepared)
            return method(view, *state)
        view = _within(view, lanes=view.lanes.alone, transposed=None)
        own, with_shared = self._apart(view)
        return jax.vmap(lambda x, *state: method(with_shared(x), *state), -1, -1)(own, *state)

    def _apart(self, view: View) -> tuple[View, Callable[[View], View]]:
        """The view without what all lanes share, and how to put that back."""
        space, prepared = view.space, view.prepared
        nothing: dict[str, Any] = dict(constants=(), prices=None, transposed=None, lanes=PLAIN)
        if self.spec.per_lane_instances:
            kept = {name: getattr(space, name) for name in nothing}
            return _within(view, **nothing), lambda own: _within(own, **kept)

        def with_shared(own: View) -> View:
            return dataclasses.replace(_within(own, space), prepared=prepared)

        own = _within(view, features=None, **nothing)
        return dataclasses.replace(own, prepared=()), with_shared

    def asked(
        self, view: View, state: Tree, wanted: Array, light: bool = False
    ) -> tuple[Array, Tree, Array | None]:
        """The choice of every lane; `wanted` [B] bool: where rare work may be done.

        Returns:
            The arms [B] int32, the rule's next state, and where rare work lacks, [B] bool, of a
            `light` call, which leaves it out; None: none lacks.
        """

        def whole(arm: Array) -> Array:
            return jnp.broadcast_to(saturated(arm), wanted.shape)

        if not self.spec.rule.rare:
            arm, after = self.ask("choose", view, state)
            return whole(arm), after, None
        arm, after, asks = self.ask("probe", view, state)
        if asks is None:
            return whole(arm), after, None
        asks, found = asks & wanted, (whole(arm), after)
        if light:
            return *found, asks
        (own, with_shared), execution = self._apart(view), self.spec.execution

        def some(c: tuple) -> tuple:
            """`choose` for the first lanes that ask, gathered into a group."""
            left, found = c
            group = min(_SERVED[execution.gpu], execution.lanes)
            place = jnp.cumsum(left.astype(jnp.int32)) - 1
            taken, place = left & (place < group), jnp.clip(place, 0, group - 1)
            asking = jnp.minimum(jnp.sum(left, dtype=jnp.int32), group)
            order = jnp.argsort(~left, stable=True).astype(jnp.int32)[:group]
            # Unused places repeat the first lane, so that they do not lengthen loops of `choose`.
            order = jnp.where(jnp.arange(group, dtype=jnp.int32) < asking, order, order[0])
            few, states = jax.tree.map(lambda x: x[..., order], (own, state))
            arm, new = self.ask("choose", _reading(with_shared(few), asking), states)
            new = jnp.broadcast_to(saturated(arm), (group,)), new
            return left & ~taken, where(taken, jax.tree.map(lambda x: x[..., place], new), found)

        def alone(_: tuple) -> tuple:
            arm, new = self.ask("choose", _reading(view, jnp.int32(1)), state)
            return whole(arm), new

        def served(c: tuple) -> tuple:
            return jax.lax.while_loop(lambda c: jnp.any(c[0]), some, c)[1]

        # In a branch: XLA would compute what does not change in the loop before its test.
        serve = alone if wanted.size == 1 else served
        arm, after = jax.lax.cond(jnp.any(asks), serve, lambda c: c[1], (asks, found))
        return arm, after, None

    def playable(self, view: View, arm: Array) -> Array:
        """The arm [B]; where it is used up the less pulled of the active piece of least evidence.

        Without one it is the least pulled that has rewards left.
        """
        known, lanes, shape = view.stats.used_up, view.lanes, view.shape
        if known is None:
            return arm
        left, inside = jnp.where(known, jnp.inf, view.counts), (arm >= 0) & (arm < known.shape[0])

        def other() -> Array:
            found = lanes.argmin(left)
            if isinstance(shape, Pairs) and not shape.items:
                piece = lanes.argmin(jnp.where(view.active, view.llr, jnp.inf))
                i, k = shape.arms(lanes, piece)
                i = jnp.where(lanes.take(left, i) <= lanes.take(left, k), i, k)
                more = jnp.isfinite(lanes.take(left, i)) & lanes.any(view.active)
                found = jnp.where(more, i, found)
            return jnp.where(gone, found, arm)

        gone = inside & lanes.take(known, jnp.where(inside, arm, 0))
        return jax.lax.cond(jnp.any(gone), other, lambda: arm)

    def work(self, view: View, state: Tree) -> tuple:
        """The pieces that the choice of a state tested, and what it solved if that is counted."""
        work = self.ask("work", view, state)
        return work if isinstance(work, tuple) else (work,)

    def natively(self, view: View, state: Tree, still: Array) -> tuple[Array, Array] | None:
        """Where the rule's own test ends runs among those `still` open, and its answer."""
        spec, native = self.spec, [stopping.native for stopping in self.spec.stopping]
        # Another threshold's proof does not cover the rule's own test.
        always = spec.rule.traits.native == "always" and self.mixture is None
        if not (always or any(native)):
            return None
        natively, verdict = self.ask("native", view, state)
        now = still & natively
        return now if always else now & np.array(native)[:, None, None], verdict

    def init(self, view: View) -> Tree:
        """The rule's state; what a lanes-last rule returns without lanes gets them."""
        b, state = view.t.shape[0], self.ask("init", view)

        def wide(x: Any, own: bool) -> Array:
            x = jnp.asarray(x)
            return x if own else jnp.broadcast_to(x[..., None], (*x.shape, b))

        own = jax.tree.map(lambda x: np.ndim(x) > 0 and np.shape(x)[-1] == b, state)
        if not (self.spec.by_vmap or shipped(self.spec.rule)):
            # An array by arm may have as many entries as there are lanes: its rank decides.
            whole = jax.eval_shape(partial(self.called, "init", by_vmap=True), view)
            own = jax.tree.map(lambda x, y: np.ndim(x) == y.ndim, state, whole)
        return jax.tree.map(wide, state, own)


_asked = Cache(lambda key, given: Traced(lambda x: Asking(key[0]).called(key[1], *x), given), KEPT)
"""`Asking.called` of a spec and a method, traced once for `outline` and the loop."""


def _reading(view: View, count: Array) -> View:
    """The view, of which the first lanes, `count` [] int32, are read."""
    return _within(view, lanes=dataclasses.replace(view.lanes, read=count))


def _within(view: View, space: ArmContext | None = None, **changes: Any) -> View:
    """The view with another `space`, or changes of its own one, in its evidence too."""
    space = dataclasses.replace(space or view.space, **changes)
    evidence: Any = dataclasses.replace(view.evidence, space=space)  # type: ignore[type-var]
    return dataclasses.replace(view, space=space, evidence=evidence)
