"""What the methods of a user's class return: calls of them, and words for what is wrong.

Those that are traced are called under `jax.eval_shape`, or while a step is traced. So nothing
compiles for a check, and no compiled step contains it.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.checks import shipped
from jaxelim.contracts import Family, Problem, Rarely, SamplingRule, Source, StoppingRule
from jaxelim.contracts.family import NOISES, noise_type
from jaxelim.contracts.pieces import HalfSpaces, Pairs, Pieces
from jaxelim.contracts.views import Estimate, Snapshot, Statistics, Tree, View
from jaxelim.errors import ArgumentError, FamilyError, JaxelimError, RuleError, abbreviate, in_words
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms

_LANES = 16
_CONTRACTS: tuple[tuple[type, str, type[ArgumentError]], ...] = (
    (Problem, "problem", ArgumentError), (Family, "family", FamilyError),
    (Source, "source", FamilyError), (SamplingRule, "rule", RuleError),
    (StoppingRule, "stopping", ArgumentError),
)  # fmt: skip
"""Classes, each with its argument in a call and the error of its faults."""
_TRACED = (
    "; made of jax.numpy operations, with jnp.where or jax.lax.cond for an if on a traced value"
)
_ABSENT = {
    "delta": "view.delta and view.beta are None unless its traits read \"delta\"",
    "rewards": "view.reward_sums may be None unless its traits read \"rewards\"",
    "chance": "view.chance is None unless its traits read \"chance\"",
    "key": "view.key is None unless its traits read \"key\"",
}


@contextmanager
def blamed(
    method: str, fault: Callable[[str], Exception], hint: Callable[[Exception], str] | None = None
) -> Iterator[None]:
    """Turn what a user's method raises into `fault(note)`; the library's own exceptions pass.

    The note is such as "choose raised ValueError: ..", with the hint on that exception.
    """
    try:
        yield
    except (JaxelimError, FloatingPointError):  # JAX's debug_nans raises the latter
        raise
    except Exception as error:
        more = "" if hint is None else hint(error)
        raise fault(f"{method} raised {in_words(error)}{more}") from error


def _fault(thing: Any, method: str, note: str, more: str = "") -> ArgumentError:
    """The error of a method of a user's object, with the words of the contract that has it."""
    contract, argument, error = next(one for one in _CONTRACTS if isinstance(thing, one[0]))
    bases = (one for one in reversed(type(thing).__mro__) if issubclass(one, contract))
    stated = next(vars(one)[method] for one in bases if method in vars(one))
    _, *taken = inspect.signature(stated).parameters.values()
    given = ", ".join(str(one.replace(annotation=one.empty)) for one in taken)
    words = (stated.__doc__ or "").removeprefix("Host: ").split("\n")[0].split(". ")[0].strip(".")
    words, a = words[:1].lower() + words[1:], "an" if method[0] in "aeiou" else "a"
    return error(argument, thing, f"{a} {method}({given}) that returns {words}{more}", note)


def _called(thing: Any, method: str, call: Callable, *arguments: Any, **more: Any) -> Any:
    """call(*arguments); what it raises is the fault of this method."""
    traced = "" if method in ("prepare", "nature", "tables") else _TRACED
    with blamed(method, partial(_fault, thing, method, more=traced), **more):
        return call(*arguments)


# What is wrong, in words; empty if nothing is.


def _described(x: Any) -> str:
    """Describe an array by dtype and shape, a sequence by length, other objects by type."""
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of length {len(x)}"
    if isinstance(x, Array | jax.ShapeDtypeStruct | np.ndarray | np.generic):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return "None" if x is None else f"of type {type(x).__name__}"


def _array_of(x: Any) -> Any:
    """x as an array, or as its shape and type; None where it is none."""
    try:
        return x if isinstance(x, jax.ShapeDtypeStruct) else jnp.asarray(x)
    except (TypeError, ValueError):
        return None


def _not(what: str, x: Any, kinds: str, *shapes: tuple) -> str:
    """That x is no array of these kinds and of one of these shapes."""
    array = _array_of(x)
    wrong = array is None or array.dtype.kind not in kinds or array.shape not in shapes
    return f"{what} {_described(x)}" if wrong else ""


def _unlike(what: str, found: Tree, known: Tree) -> str:
    """How a tree of arrays differs from a known one; {} in `what` is the place of a leaf."""
    before, after = jax.tree.structure(known), jax.tree.structure(found)
    if before != after:
        return f"{what.format('')} has structure {after}, not {before}"
    leaves = jax.tree_util.tree_leaves_with_path(known)
    for (path, y), x in zip(leaves, jax.tree.leaves(found), strict=True):
        array = _array_of(x)
        if array is None or (array.shape, array.dtype) != (y.shape, y.dtype):
            place = what.format(jax.tree_util.keystr(path))
            return f"{place} is {_described(x)}, not {_described(y)}"
    return ""


# Problems.


def traced_shape(problem: Problem, arms: int, dimensions: int) -> Pieces:
    """The shape of the problem's pieces, with shapes and dtypes in place of arrays.

    Raises:
        ArgumentError: a method raises, or its result breaks its contract.
    """
    return (_kept_shape if shipped(problem) else _traced_shape)(problem, arms, dimensions)


def _traced_shape(problem: Problem, arms: int, dimensions: int) -> Pieces:
    def ask(name: str, *arguments: Any) -> Any:
        return _called(problem, name, getattr(problem, name), *arguments)

    def traced(means, theta, constants):
        seen = Estimate(LaneOps(), means, theta, constants)
        answer = ask("answer", seen)
        if not all(isinstance(x, jax.Array) for x in jax.tree.leaves(answer)):
            note = "answer returned a pytree with leaves that are no arrays"
            raise _fault(problem, "answer", note)
        public = ask("public", seen, answer)
        width = problem.width(arms)
        if getattr(public, "shape", None) != (width,) or public.dtype != jnp.bool_:
            raise _fault(problem, "public", f"public returned {abbreviate(public)}")
        shape = ask("shape", seen, answer)
        if wrong := _wrong_lengths(shape, arms):
            raise _fault(problem, "shape", f"shape returned {wrong}")
        return shape

    with scope.engine():
        return jax.eval_shape(traced, np.zeros(arms), np.zeros(dimensions), problem.constants())


_kept_shape = lru_cache(256)(_traced_shape)  # tracing takes as long as a solve of H*


def _wrong_lengths(shape: Any, arms: int) -> str:
    """What is wrong with a shape of K arms; empty if nothing is."""
    if not isinstance(shape, Pairs | HalfSpaces):
        return f"a {type(shape).__name__}"
    exists = shape.exists
    if wrong := _not("exists of", exists, "b", (exists.size,)):
        return wrong
    if isinstance(shape, HalfSpaces):
        return ""
    if shape.first is None:
        wrong = _not("above of", shape.above, "b", (arms,))
        right = not wrong and exists.shape == (arms,) and shape.level is not None
        return "" if right else f"above of {_described(shape.above)}"
    first, rows = shape.first, 1 if shape.first.ndim == 0 else shape.first.shape[0]
    whole = first.dtype.kind in "iu" and first.ndim < 2 and exists.size % rows == 0
    if whole and (shape.items or exists.size == rows * (arms + shape.refers)):
        return ""
    return f"first of {_described(first)} with {exists.size} places"


# Families and sources.


def check_settings(drawn: Family | Source) -> None:
    """Check the attributes of a user's family that a call reads first; of a source its noise.

    Raises:
        FamilyError: one of them is not allowed.
    """
    if shipped(drawn):
        return
    settings = (
        ("noise", str, " or ".join(map(repr, NOISES)), NOISES.__contains__),
        ("initial_pulls", int | np.integer, "an integer >= 1", lambda n: n >= 1),
        ("scale", int | float | np.number, "a finite number > 0", lambda x: 0 < x < np.inf),
    )
    argument = "source" if isinstance(drawn, Source) else "family"
    for name, kind, allowed, good in settings[:1] if argument == "source" else settings:
        value = getattr(drawn, name)
        if isinstance(value, bool) or not isinstance(value, kind) or not good(value):
            note = f"its {name} is {abbreviate(value)}"
            raise FamilyError(argument, drawn, f"a {argument} whose {name} is {allowed}", note)


def check(family: Family, problem: Problem, constants: Any, instance: "Arms", dtype: Any) -> None:
    """Check the methods that a run calls; the library's own families are not checked.

    `family` is as `settled` made it, and `constants` are the problem's arrays.

    Raises:
        FamilyError: a method raises, or returns what its contract does not allow.
    """
    if shipped(family):
        return
    k, ask = instance.K, partial(_traced, family)
    arm, go, reward = _like(jnp.int32), _like(jnp.bool_), _like(dtype)
    means = _like(dtype, k)
    if (model := cast(Any, family)).by_loss:
        stat = ask("first", model.first, means, like=dict(n=means, mean=means))
        ask("loss", model.loss, stat, means, like=means)
    tables = _first(numbers(family, "tables", instance.size, instance), dtype)
    features = jnp.asarray(instance.arms.reshape(-1, k, instance.d)[0], dtype)
    constants = jax.tree.map(jnp.asarray, constants)
    space = _called(family, "space", family.space, LaneOps(), features, constants)
    like = dict(t=arm, counts=means, means=means)
    first = ask("start", partial(family.start, space, problem), tables, means, like=like)
    if not isinstance(first, Statistics):
        raise _fault(family, "start", f"what start returned is {_described(first)}")

    def seen(stats: Statistics) -> Snapshot:
        return Snapshot.of(family, problem, space, stats)

    def values(stats: Statistics) -> tuple[Any, Any]:
        now = seen(stats)
        return now.evidence.values(), now.shape.exists

    found, exists = ask("evidence", values, first)
    _same(family, "evidence", found, jax.ShapeDtypeStruct(exists.shape, dtype))
    after = lambda stats, *pull: family.update(seen(stats), *pull)  # noqa: E731
    ask("update", after, first, arm, reward, go, like=first)


def check_draws(drawn: Family | Source, instance: "Arms", dtype: Any) -> None:
    """Check what rewards are drawn from, as `check` does: a family, or a source's static part."""
    truth = instance.truth
    if truth is None or shipped(drawn):
        return
    nature = numbers(instance.source or drawn, "nature", truth.size, truth)
    nature, arm = _first(nature, dtype), _like(jnp.int32)
    noise, draw = _like(noise_type(drawn.noise, dtype)), partial(drawn.draw, LaneOps())
    _traced(drawn, "draw", draw, nature, arm, arm, noise, like=_like(dtype))
    if isinstance(drawn, Source):
        lengths = _traced(drawn, "lengths", drawn.lengths, nature)
        if lengths is not None:
            _same(drawn, "lengths", lengths, jax.ShapeDtypeStruct((truth.K,), jnp.int32))


def _like(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*shape, _LANES), dtype)


def _first(arrays: Any, dtype: Any) -> Any:
    """The arrays of the first instance, floats in the type of a run."""
    first = jax.tree.map(lambda x: np.asarray(x)[0], arrays)
    return jax.tree.map(lambda x: x.astype(dtype) if x.dtype.kind == "f" else x, first)


def numbers(thing: Any, method: str, size: int | None, *arguments: Any) -> Tree:
    """What a method of the host returns: arrays of numbers; of `size` instances, if it is given."""

    def arrays() -> tuple[Tree, list[np.ndarray]]:
        found = getattr(thing, method)(*arguments)
        return found, [np.asarray(x) for x in jax.tree.leaves(found)]

    found, leaves = _called(thing, method, arrays)
    for x in leaves:
        if x.dtype.kind not in "biuf" or size is not None and x.shape[:1] != (size,):
            raise _fault(thing, method, f"a leaf of what {method} returned is {_described(x)}")
    return found


def _traced(thing: Any, method: str, call: Callable, *arguments: Any, like: Any = None) -> Any:
    """The shapes and types of what a method returns: those `like`, of a dict by attribute."""
    found = _called(thing, method, jax.eval_shape, call, *arguments)
    if isinstance(like, dict):
        if not all(hasattr(found, name) for name in like):
            raise _fault(thing, method, f"what {method} returned is {_described(found)}")
        _same(thing, method, {name: getattr(found, name) for name in like}, like)
    elif like is not None:
        _same(thing, method, found, like)
    return found


def _same(thing: Any, method: str, found: Any, known: Any) -> None:
    """Refuse an array, or a tree of arrays, of other shapes or types than those known."""
    if wrong := _unlike(f"what {method} returned{{}}", found, known):
        raise _fault(thing, method, wrong)


# Sampling and stopping rules.


def call(rule: SamplingRule, method: str, view: View, *state: Tree) -> Any:
    """What a method of a sampling rule returns; a RuleError if it breaks its contract.

    "probe" is `choose` without its rare work; it returns too whether a run needs that, [] bool;
    None where `choose` states no such work for this problem.
    """
    probes = method == "probe"
    method = "choose" if probes else method
    rarely = [Rarely(jnp.zeros_like(view.t, bool) if probes else None)]
    rarely = rarely if probes or (method == "choose" and rule.rare) else []
    hint = partial(_hint, rule)
    result = _called(rule, method, getattr(rule, method), view, *state, *rarely, hint=hint)
    if wrong := _wrong(method, result, view.t.shape, view, *state):
        raise _fault(rule, method, wrong)
    if method == "init":
        return jax.tree.map(_array, result)
    if method == "choose":
        result = result[0], jax.tree.map(_array, result[1])
    return (*result, rarely[0].asks if rarely[0].called else None) if probes else result


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
    result = _called(rule, method, getattr(rule, method), seen, *others)
    if wrong := _wrong(method, result, seen.stats.t.shape, seen, *others):
        raise _fault(rule, method, wrong)
    return result


def _wrong(method: str, result: Any, lanes: tuple, seen: Any, *others: Any) -> str:
    """What is wrong with the result of a method, in `lanes` [] or [B]; empty if nothing is."""
    returned, length = f"that {method} returned", {"observe": 3, "choose": 2, "native": 2}
    state = f"the state{{}} {returned}"
    if method in ("init", "start"):
        last = lanes if method == "start" else ()
        for leaf in jax.tree.leaves(result):
            array = _array_of(leaf)
            if array is None or last and array.shape[-1:] != last:
                return f"a leaf of {state.format('')} is {_described(leaf)}"
        return ""
    if method == "work":
        parts = result if isinstance(result, tuple) and len(result) == 2 else (result,)
        wrong = (_not("what work returned is", x, "iuf", (), lanes) for x in parts)
        return next(filter(None, wrong), "")
    if method == "answer":
        return _unlike("what answer returned", result, seen.public)
    if not isinstance(result, tuple | list) or len(result) != length[method]:
        return f"what {method} returned is {_described(result)}"
    if method == "observe":
        (after, stops, tests), (before, beta) = result, others
        return (
            _not(f"the stops {returned} are", stops, "b", beta.shape)
            or _not(f"the tests {returned} are", tests, "iu", (), beta.shape)
            or _unlike(state, after, before)
        )
    if method == "choose":
        wrong = _not(f"the arm {returned} is", result[0], "iu", (), lanes)
        return wrong or _unlike(state, result[1], others[0])
    wide = (seen.problem.width(seen.means.shape[0]),)
    wrong = _not(f"the stops {returned} is", result[0], "b", (), lanes)
    return wrong or _not(f"the answer {returned} is", result[1], "b", wide, wide + seen.t.shape)
