"""Checks of what the methods of a sampling rule return.

They run while the methods are traced, so a compiled step does not contain them.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxelim.contracts import SamplingRule
from jaxelim.contracts.rarely import Rarely, Skipping
from jaxelim.contracts.returned import array_of, blamed, described
from jaxelim.contracts.views import Tree, View
from jaxelim.errors import RuleError

_ARM = "arm an integer scalar from 0 to K - 1, state like the one of init"
RETURNS = {
    "init": "an init(view) that returns the state, a pytree of arrays",
    "choose": f"a choose(view, state) that returns (arm, state), {_ARM}",
    "native": "a native(view, state) that returns (stops, answer), a bool scalar and bools as "
    "long as an answer",
    "work": "a work(view, state) that returns a number of pieces, a scalar, or a pair with the "
    "number of solves",
}
"""The contract of each method, in words."""

_TRACED = (
    "; made of jax.numpy operations, with jnp.where or jax.lax.cond for an if on a traced value"
)


def call(rule: SamplingRule, method: str, view: View, *state: Tree) -> Any:
    """Call a method of the rule and check what it returns.

    "probe" is `choose` without its rare work; it returns too whether a run needs that, [] bool.

    Raises:
        RuleError: the method raises, or its result breaks its contract.
    """

    skipping = Skipping(jnp.zeros_like(view.t, bool))
    probes, rarely = method == "probe", []
    if probes:
        method, rarely = "choose", [skipping]
    elif method == "choose" and rule.rare:
        rarely = [Rarely()]

    def fault(note: str) -> RuleError:
        return RuleError(rule, RETURNS[method] + _TRACED, note)

    with blamed(method, fault, partial(_undeclared, rule)):
        result = getattr(rule, method)(view, *state, *rarely)
    wrong = _wrong(method, result, view, *state)
    if wrong:
        raise RuleError(rule, RETURNS[method], wrong)
    return (*result, skipping.asks) if probes else result


_ABSENT = {
    "delta": "view.delta and view.beta are None unless its traits read \"delta\"",
    "rewards": "view.reward_sums may be None unless its traits read \"rewards\"",
    "chance": "view.chance is None unless its traits read \"chance\"",
    "key": "view.key is None unless its traits read \"key\"",
}


def _undeclared(rule: SamplingRule, error: Exception) -> str:
    """The traits that may be missing where a rule has met a None."""
    if "NoneType" not in str(error):
        return ""
    absent = [told for name, told in _ABSENT.items() if name not in rule.traits.reads]
    return "".join(f"; {attribute}" for attribute in absent)


def _wrong(method: str, result: Any, view: View, *state: Tree) -> str:
    """What is wrong with the result of a method; empty if nothing is."""
    parts = {"choose": 2, "native": 2}.get(method)
    if parts is not None and (not isinstance(result, tuple | list) or len(result) != parts):
        return f"what {method} returned is {described(result)}"
    if method == "init":
        return _no_arrays(result)
    if method == "work":
        parts = result if isinstance(result, tuple) and len(result) == 2 else (result,)
        wrong = (_no_scalar("what work returned is", part, "iuf", view) for part in parts)
        return next(filter(None, wrong), "")
    if method == "native":
        return _no_scalar("the stops that native returned is", result[0], "b", view) or _no_answer(
            result[1], view
        )
    wrong = _no_scalar(f"the arm that {method} returned is", result[0], "iu", view)
    return wrong or changed(method, state[0], result[1])


def _no_scalar(what: str, x: Any, kinds: str, view: View) -> str:
    array = array_of(x)
    if array is None or array.dtype.kind not in kinds or array.shape not in ((), view.t.shape):
        return f"{what} {described(x)}"
    return ""


def _no_answer(x: Any, view: View) -> str:
    array, width = array_of(x), view.problem.width(view.means.shape[0])
    shapes = (width,), (width, *view.t.shape)
    if array is None or array.dtype != jnp.bool_ or array.shape not in shapes:
        return f"the answer that native returned is {described(x)}"
    return ""


def _no_arrays(state: Tree) -> str:
    for leaf in jax.tree.leaves(state):
        if array_of(leaf) is None:
            return f"a leaf of the state that init returned is {described(leaf)}"
    return ""


def changed(method: str, old: Tree, new: Tree, first: str = "init") -> str:
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
