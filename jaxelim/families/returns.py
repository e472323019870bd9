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
from jaxelim.families import noise as random
from jaxelim.families.arm import ArmModel
from jaxelim.lanes import LaneOps
from jaxelim.mixtures.pieces import Stat

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

_LANES = 16
_TRACED = "; made of jax.numpy operations, with jnp.where for an if on a traced value"
_ALLOWED = {
    "nature": "a nature(instance) that returns numbers in NumPy arrays [instance, ..]",
    "draw": "a draw(lanes, nature, arm, pull, noise) that returns rewards, one for each entry of "
    "noise and of its type" + _TRACED,
    "start": "a start(space, problem, tables, rewards) that returns Statistics" + _TRACED,
    "evidence": "an evidence(space, stats, shape) whose values() has a number of the means' type "
    "for each piece" + _TRACED,
    "update": "an update(seen, arm, reward, go) that returns statistics like those of start"
    + _TRACED,
    "lengths": "a lengths(nature) that returns None or an int32 for each arm" + _TRACED,
    "first": "a first(x) that returns statistics with n and mean, arrays like x" + _TRACED,
    "loss": "a loss(stat, by) that returns an array like by" + _TRACED,
}
"""The contract of each method, in words."""


def check_settings(family: Family) -> None:
    """Check the attributes of a user's family that a call reads first.

    Raises:
        FamilyError: one of them is not allowed.
    """
    if shipped(family):
        return
    pulls, scale = family.initial_pulls, family.scale
    whole = isinstance(pulls, int | np.integer) and not isinstance(pulls, bool)
    real = isinstance(scale, int | float | np.number) and not isinstance(scale, bool)
    for name, value, allowed, good in (
        ("noise", family.noise, " or ".join(map(repr, random.KINDS)), family.noise in random.KINDS),
        ("initial_pulls", pulls, "an integer >= 1", whole and pulls >= 1),
        ("scale", scale, "a finite number > 0", real and 0 < scale < np.inf),
    ):
        if not good:
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

    def like(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*shape, _LANES), dtype)

    arm, go = (jax.ShapeDtypeStruct((_LANES,), kind) for kind in (jnp.int32, jnp.bool_))
    k, lanes, means = instance.K, LaneOps(), like(instance.K)
    if isinstance(family, ArmModel):
        stat = _traced(family, "first", family.first, means)
        known: Any = (getattr(stat, name, None) for name in ("n", "mean"))
        _same(family, "first", Stat(*known), Stat(means, means))  # type: ignore[arg-type]
        _same(family, "loss", _traced(family, "loss", family.loss, stat, means), means)
    allowed = "tables(instance) and space(lanes, features, constants) that do not raise"
    with blamed("tables or space", partial(FamilyError, "family", family, allowed)):
        tables = jax.tree.map(lambda x: _as(np.asarray(x)[0], dtype), family.tables(instance))
        features = jnp.asarray(instance.arms.reshape(-1, k, instance.d)[0], dtype)
        space = family.space(lanes, features, jax.tree.map(jnp.asarray, constants))
    first = _traced(family, "start", partial(family.start, space, problem), tables, means)
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

    found, exists = _traced(family, "evidence", values, first)
    _same(family, "evidence", found, jax.ShapeDtypeStruct(exists.shape, dtype))
    after = lambda stats, *pull: family.update(seen(stats), *pull)  # noqa: E731
    _same(family, "update", _traced(family, "update", after, first, arm, like(), go), first)


def check_draws(drawn: Family | Source, instance: "Arms", dtype: Any) -> None:
    """Check what rewards are drawn from, as `check` does: a family, or a source's static part."""
    truth = instance.truth
    if truth is None or shipped(drawn):
        return
    arm, reward, noise = (
        jax.ShapeDtypeStruct((_LANES,), kind)
        for kind in (jnp.int32, dtype, random.type_of(drawn.noise, dtype))
    )
    nature, lanes = _nature(instance.source or drawn, truth, dtype), LaneOps()
    draw = partial(drawn.draw, lanes)
    _same(drawn, "draw", _traced(drawn, "draw", draw, nature, arm, arm, noise), reward)
    if isinstance(drawn, Source):
        lengths = _traced(drawn, "lengths", drawn.lengths, nature)
        if lengths is not None:
            _same(drawn, "lengths", lengths, jax.ShapeDtypeStruct((truth.K,), jnp.int32))


def _nature(drawn: Family | Source, instance: "Instance", dtype: Any) -> Any:
    """The nature of one instance, without values."""
    with blamed("nature", partial(_fault, drawn, "nature")):
        nature = drawn.nature(instance)
        arrays = [np.asarray(x) for x in jax.tree.leaves(nature)]
    for x in arrays:
        if x.dtype.kind not in "biuf" or x.shape[:1] != (instance.size,):
            raise _fault(drawn, "nature", f"it returned {described(x)}")
    return jax.tree.map(lambda x: _as(np.asarray(x)[0], dtype), nature)


def _as(x: np.ndarray, dtype: Any) -> np.ndarray:
    return x.astype(dtype) if x.dtype.kind == "f" else x


def _fault(one: Family | Source, method: str, note: str) -> FamilyError:
    argument = "source" if isinstance(one, Source) else "family"
    return FamilyError(argument, one, _ALLOWED[method], note)


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
