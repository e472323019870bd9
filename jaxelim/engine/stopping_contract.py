"""Checks of what the methods of a stopping rule return, while they are traced."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxelim.contracts import StoppingRule
from jaxelim.contracts.returned import array_of, blamed, described
from jaxelim.contracts.views import Snapshot, Tree
from jaxelim.engine.rule_contract import changed
from jaxelim.errors import ArgumentError

RETURNS = {
    "start": "a start(seen, pair_times) that returns the state, arrays with lanes last",
    "observe": "an observe(seen, state, beta) that returns (state, stops, tests): a state like "
    "the one of start, whether each lane stops, bools like beta, and a number of tests, integers",
    "answer": "an answer(seen, state) that returns bools like seen.public",
}
"""The contract of each method, in words."""


def call(rule: StoppingRule, method: str, seen: Snapshot, *others: Any) -> Any:
    """Call a method of the rule and check what it returns; arguments in lanes.

    Raises:
        ArgumentError: the method raises, or its result breaks its contract.
    """
    fault = partial(ArgumentError, "stopping", rule, RETURNS[method])
    with blamed(method, fault):
        result = getattr(rule, method)(seen, *others)
    check = {"start": _no_state, "observe": _not_observed, "answer": _no_answer}[method]
    wrong = check(result, seen, *others)
    if wrong:
        raise fault(wrong)
    return result


def _no_state(result: Tree, seen: Snapshot, *_: Any) -> str:
    lanes = seen.stats.t.shape
    for leaf in jax.tree.leaves(result):
        array = array_of(leaf)
        if array is None or array.shape[-1:] != lanes:
            return f"a leaf of the state that start returned is {described(leaf)}"
    return ""


def _not_observed(result: Any, seen: Snapshot, state: Tree, beta: Array) -> str:
    if not isinstance(result, tuple | list) or len(result) != 3:
        return f"what observe returned is {described(result)}"
    after, stops, tests = result
    if getattr(stops, "dtype", None) != jnp.bool_ or stops.shape != beta.shape:
        return f"the stops that observe returned are {described(stops)}"
    number = array_of(tests)
    if number is None or number.dtype.kind not in "iu" or number.shape not in ((), beta.shape):
        return f"the tests that observe returned are {described(tests)}"
    return changed("observe", state, after, "start")


def _no_answer(result: Any, seen: Snapshot, *_: Any) -> str:
    public = seen.public
    if getattr(result, "dtype", None) != jnp.bool_ or result.shape != public.shape:
        return f"what answer returned is {described(result)}, not {described(public)}"
    return ""
