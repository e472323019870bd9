"""Calls of the methods of sampling and stopping rules, with checks of what they return.

They run while the methods are traced, so a compiled step does not contain them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import SamplingRule, StoppingRule
from jaxelim.contracts.returned import array_of, blamed, described
from jaxelim.contracts.traits import Rarely, Skipping
from jaxelim.contracts.views import Snapshot, Tree, View
from jaxelim.errors import ArgumentError, RuleError

_ARM = "arm an integer scalar from 0 to K - 1, state like the one of init"
RETURNS = {
    "init": "an init(view) that returns the state, a pytree of arrays",
    "choose": f"a choose(view, state) that returns (arm, state), {_ARM}",
    "native": "a native(view, state) that returns (stops, answer), a bool scalar and bools as "
    "long as an answer",
    "work": "a work(view, state) that returns a number of pieces, a scalar, or a pair with the "
    "number of solves",
    "start": "a start(seen, pair_times) that returns the state, arrays with lanes last",
    "observe": "an observe(seen, state, beta) that returns (state, stops, tests): a state like "
    "the one of start, whether each lane stops, bools like beta, and a number of tests, integers",
    "answer": "an answer(seen, state) that returns bools like seen.public",
}
"""The contract of each method, in words."""

_TRACED = (
    "; made of jax.numpy operations, with jnp.where or jax.lax.cond for an if on a traced value"
)
_ABSENT = {
    "delta": "view.delta and view.beta are None unless its traits read \"delta\"",
    "rewards": "view.reward_sums may be None unless its traits read \"rewards\"",
    "chance": "view.chance is None unless its traits read \"chance\"",
    "key": "view.key is None unless its traits read \"key\"",
}


def call(rule: SamplingRule, method: str, view: View, *state: Tree) -> Any:
    """What a method of a sampling rule returns; a RuleError if it breaks its contract.

    "probe" is `choose` without its rare work; it returns too whether a run needs that, [] bool;
    None where `choose` states no such work for this problem.
    """
    skipping = Skipping(jnp.zeros_like(view.t, bool))
    probes, rarely = method == "probe", []
    if probes:
        method, rarely = "choose", [skipping]
    elif method == "choose" and rule.rare:
        rarely = [Rarely()]
    broken = partial(RuleError, "rule", rule, RETURNS[method] + _TRACED)
    with blamed(method, broken, partial(_hint, rule)):
        result = getattr(rule, method)(view, *state, *rarely)
    if wrong := _wrong(method, result, view.t.shape, view, *state):
        raise RuleError("rule", rule, RETURNS[method], wrong)
    if method == "init":
        return jax.tree.map(_array, result)
    if method == "choose":
        result = result[0], jax.tree.map(_array, result[1])
    return (*result, skipping.asks if skipping.called else None) if probes else result


def _array(leaf: Any) -> Array:
    """A Python number as an array of its type: all branches of a step have the same types."""
    return jnp.asarray(leaf, jnp.result_type(leaf))


def _hint(rule: SamplingRule, error: Exception) -> str:
    """The traits that may be missing where a rule has met a None."""
    if "NoneType" not in str(error):
        return ""
    return "".join(f"; {what}" for name, what in _ABSENT.items() if name not in rule.traits.reads)


def call_stopping(rule: StoppingRule, method: str, seen: Snapshot, *others: Any) -> Any:
    """What a method of a stopping rule returns; an ArgumentError if it breaks its contract."""
    fault = partial(ArgumentError, "stopping", rule, RETURNS[method])
    with blamed(method, fault):
        result = getattr(rule, method)(seen, *others)
    if wrong := _wrong(method, result, seen.stats.t.shape, seen, *others):
        raise fault(wrong)
    return result


def _wrong(method: str, result: Any, lanes: tuple, seen: Any, *others: Any) -> str:
    """What is wrong with the result of a method, in `lanes` [] or [B]; empty if nothing is."""
    returned = f"that {method} returned"
    if method in ("init", "start"):
        return _no_leaf(result, method, lanes if method == "start" else ())
    if method == "work":
        parts = result if isinstance(result, tuple) and len(result) == 2 else (result,)
        wrong = (_not("what work returned is", x, "iuf", (), lanes) for x in parts)
        return next(filter(None, wrong), "")
    if method == "answer":
        wrong = _not("what answer returned is", result, "b", seen.public.shape)
        return wrong and f"{wrong}, not {described(seen.public)}"
    length = 3 if method == "observe" else 2
    if not isinstance(result, tuple | list) or len(result) != length:
        return f"what {method} returned is {described(result)}"
    if method == "observe":
        (after, stops, tests), (state, beta) = result, others
        return (
            _not(f"the stops {returned} are", stops, "b", beta.shape)
            or _not(f"the tests {returned} are", tests, "iu", (), beta.shape)
            or _changed(method, state, after, "start")
        )
    if method == "choose":
        wrong = _not(f"the arm {returned} is", result[0], "iu", (), lanes)
        return wrong or _changed(method, others[0], result[1], "init")
    wide = (seen.problem.width(seen.means.shape[0]),)
    wrong = _not(f"the stops {returned} is", result[0], "b", (), lanes)
    return wrong or _not(f"the answer {returned} is", result[1], "b", wide, wide + seen.t.shape)


def _not(what: str, x: Any, kinds: str, *shapes: tuple) -> str:
    """That x is no array of these kinds and of one of these shapes; empty if it is."""
    array = array_of(x)
    wrong = array is None or array.dtype.kind not in kinds or array.shape not in shapes
    return f"{what} {described(x)}" if wrong else ""


def _no_leaf(state: Tree, method: str, last: tuple = ()) -> str:
    """That a leaf of a state is no array, or has another last axis; empty if all are right."""
    for leaf in jax.tree.leaves(state):
        array = array_of(leaf)
        if array is None or last and array.shape[-1:] != last:
            return f"a leaf of the state that {method} returned is {described(leaf)}"
    return ""


def _changed(method: str, old: Tree, new: Tree, first: str) -> str:
    """How the state that a method returned differs from that of `first`; empty if it does not."""
    before, after = jax.tree.structure(old), jax.tree.structure(new)
    if before != after:
        return f"{method} returned a state of structure {after}, {first} one of {before}"
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True
    ):
        array = array_of(b)
        if array is None or array.shape != a.shape or array.dtype != a.dtype:
            name = jax.tree_util.keystr(path)
            return f"state{name} is {described(a)} after {first} and {described(b)} after {method}"
    return ""
