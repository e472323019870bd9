"""Checks of what the methods of a user's reward family or source return.

They trace the methods, so that nothing compiles.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.checks import shipped
from jaxelim.contracts import Family, Problem, Source
from jaxelim.contracts.returned import blamed, described
from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.errors import FamilyError, abbreviate
from jaxelim.families import draws as random
from jaxelim.families.arm import ArmModel
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.pieces import Stat

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms

_LANES = 16
_TRACED = "; made of jax.numpy operations, with jnp.where for an if on a traced value"
_ALLOWED = {
    "nature": "a nature(instance) that returns numbers in NumPy arrays [instance, ..]",
    "draw": "a draw(lanes, nature, arm, pull, noise) that returns rewards, one for each entry of "
    "noise and of its type",
    "start": "a start(space, problem, tables, rewards) that returns Statistics",
    "evidence": "an evidence(space, stats, shape) whose values() has a number of the means' type "
    "for each piece",
    "update": "an update(seen, arm, reward, go) that returns statistics like those of start",
    "lengths": "a lengths(nature) that returns None or an int32 for each arm",
    "first": "a first(x) that returns statistics with n and mean, arrays like x",
    "loss": "a loss(stat, by) that returns an array like by",
}


def check_settings(family: Family) -> None:
    """Check the attributes of a user's family that a call reads first.

    Raises:
        FamilyError: one of them is not allowed.
    """
    if shipped(family):
        return
    for name, kind, allowed, good in (
        ("noise", str, " or ".join(map(repr, random.KINDS)), random.KINDS.__contains__),
        ("initial_pulls", int | np.integer, "an integer >= 1", lambda n: n >= 1),
        ("scale", int | float | np.number, "a finite number > 0", lambda x: 0 < x < np.inf),
    ):
        value = getattr(family, name)
        if isinstance(value, bool) or not isinstance(value, kind) or not good(value):
            note = f"its {name} is {abbreviate(value)}"
            raise FamilyError("family", family, f"a family whose {name} is {allowed}", note)


def check(family: Family, problem: Problem, constants: Any, instance: "Arms", dtype: Any) -> None:
    """Check the methods that a run calls; the library's own families are not checked.

    `family` is as `settled` made it, and `constants` are the problem's arrays.

    Raises:
        FamilyError: a method raises, or returns what its contract does not allow.
    """
    if shipped(family):
        return
    k, lanes, ask = instance.K, LaneOps(), partial(_traced, family)
    arm, go, reward = _like(jnp.int32), _like(jnp.bool_), _like(dtype)
    means = _like(dtype, k)
    if isinstance(family, ArmModel):
        stat = ask("first", family.first, means)
        known: Any = (getattr(stat, name, None) for name in ("n", "mean"))
        _same(family, "first", Stat(*known), Stat(means, means))  # type: ignore[arg-type]
        _same(family, "loss", ask("loss", family.loss, stat, means), means)
    allowed = "tables(instance) and space(lanes, features, constants) that do not raise"
    with blamed("tables or space", partial(FamilyError, "family", family, allowed)):
        tables = _first(family.tables(instance), dtype)
        features = jnp.asarray(instance.arms.reshape(-1, k, instance.d)[0], dtype)
        space = family.space(lanes, features, jax.tree.map(jnp.asarray, constants))
    first = ask("start", partial(family.start, space, problem), tables, means)
    if not isinstance(first, Statistics):
        raise _fault(family, "start", f"it returned {described(first)}")
    bare: Any = partial(Statistics, reward_sums=None)
    ours = bare(t=first.t, counts=first.counts, means=first.means)
    _same(family, "start", ours, bare(t=arm, counts=means, means=means))

    def seen(stats: Statistics) -> Snapshot:
        return Snapshot.of(family, problem, space, stats)

    def values(stats: Statistics) -> tuple[Any, Any]:
        now = seen(stats)
        return now.evidence.values(), now.shape.exists

    found, exists = ask("evidence", values, first)
    _same(family, "evidence", found, jax.ShapeDtypeStruct(exists.shape, dtype))
    after = lambda stats, *pull: family.update(seen(stats), *pull)  # noqa: E731
    _same(family, "update", ask("update", after, first, arm, reward, go), first)


def check_draws(drawn: Family | Source, instance: "Arms", dtype: Any) -> None:
    """Check what rewards are drawn from, as `check` does: a family, or a source's static part."""
    truth = instance.truth
    if truth is None or shipped(drawn):
        return
    whole: Any = instance.source or drawn
    with blamed("nature", partial(_fault, whole, "nature")):
        nature = whole.nature(truth)
        arrays = [np.asarray(x) for x in jax.tree.leaves(nature)]
    for x in arrays:
        if x.dtype.kind not in "biuf" or x.shape[:1] != (truth.size,):
            raise _fault(whole, "nature", f"it returned {described(x)}")
    nature, arm = _first(nature, dtype), _like(jnp.int32)
    noise, draw = _like(random.type_of(drawn.noise, dtype)), partial(drawn.draw, LaneOps())
    found = _traced(drawn, "draw", draw, nature, arm, arm, noise)
    _same(drawn, "draw", found, _like(dtype))
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


def _fault(one: Family | Source, method: str, note: str) -> FamilyError:
    argument = "source" if isinstance(one, Source) else "family"
    allowed = _ALLOWED[method] + (_TRACED if method != "nature" else "")
    return FamilyError(argument, one, allowed, note)


def _traced(one: Family | Source, name: str, method: Callable, *arguments: Any) -> Any:
    """The shapes and types of what a method returns."""
    with blamed(name, partial(_fault, one, name)):
        return jax.eval_shape(method, *arguments)


def _same(one: Family | Source, method: str, result: Any, known: Any) -> None:
    """Refuse an array, or a tree of arrays, of other shapes or types than those known."""
    parts, found = jax.tree_util.tree_leaves_with_path(known), [result]
    if len(parts) > 1:
        found = jax.tree.leaves(result)
        if jax.tree.structure(result) != jax.tree.structure(known):
            raise _fault(one, method, "it returned another structure")
    for (path, y), x in zip(parts, found, strict=True):
        if (getattr(x, "shape", None), getattr(x, "dtype", None)) != (y.shape, y.dtype):
            part = f"{jax.tree_util.keystr(path)[1:]} of " if path else ""
            note = f"{part}what it returned is {described(x)}, not {described(y)}"
            raise _fault(one, method, note)
