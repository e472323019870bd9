"""Checks of what the methods of a user's reward family or source return.

They trace the methods, so that nothing compiles.
"""

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
    "used_up": "a used_up(lanes, nature, arm, pull) that returns None or bools, one for each arm"
    + _TRACED,
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

    Args:
        family: as `settled` made it.
        problem: as in a program, in lanes.
        constants: the problem's arrays.
        instance: the instance or batch; arms alone of a run that draws nothing.
        dtype: the floating type of the run.

    Raises:
        FamilyError: a method raises, or returns what its contract does not allow.
    """
    if shipped(family):
        return

    def like(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*shape, _LANES), dtype)

    arm, go = (jax.ShapeDtypeStruct((_LANES,), kind) for kind in (jnp.int32, jnp.bool_))
    k, lanes = instance.K, LaneOps()
    if isinstance(family, ArmModel):
        means = like(k)
        stat = _traced(family, "first", means)
        for name in ("n", "mean"):
            _same(family, "first", getattr(stat, name, None), means, f"{name} of ")
        _same(family, "loss", _traced(family, "loss", stat, means), means)
    allowed = "tables(instance) and space(lanes, features, constants) that do not raise"
    with blamed("tables or space", partial(FamilyError, "family", family, allowed)):
        tables = jax.tree.map(lambda x: _as(np.asarray(x)[0], dtype), family.tables(instance))
        features = jnp.asarray(instance.arms.reshape(-1, k, instance.d)[0], dtype)
        space = family.space(lanes, features, jax.tree.map(jnp.asarray, constants))
    first = _traced(family, "start", tables, like(k), first=(space, problem))
    if not isinstance(first, Statistics):
        raise FamilyError("family", family, _ALLOWED["start"], f"it returned {described(first)}")
    for name, known in (("counts", like(k)), ("means", like(k)), ("t", arm)):
        _same(family, "start", getattr(first, name), known, f"{name} of ")

    def seen(stats: Statistics) -> Snapshot:
        return Snapshot.of(family, problem, space, stats)

    values, pieces = _call(
        family, "evidence", lambda now: (seen(now).evidence.values(), seen(now).shape.exists), first
    )
    _same(family, "evidence", values, jax.ShapeDtypeStruct(pieces.shape, dtype))
    now = _call(
        family, "update", lambda now, *pull: family.update(seen(now), *pull), first, arm, like(),
        go,
    )  # fmt: skip
    if jax.tree.structure(now) != jax.tree.structure(first):
        raise FamilyError("family", family, _ALLOWED["update"], "it returned another structure")
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(first)]
    for path, x, y in zip(paths, jax.tree.leaves(now), jax.tree.leaves(first), strict=True):
        _same(family, "update", x, y, f"{path[1:]} of ")


def check_draws(drawn: Family | Source, instance: "Arms", dtype: Any) -> None:
    """Check what rewards are drawn from, as `check` does: a family, or a source's static part."""
    truth = instance.truth
    if truth is None or shipped(drawn):
        return
    noise = jax.ShapeDtypeStruct((_LANES,), random.type_of(drawn.noise, dtype))
    reward = jax.ShapeDtypeStruct((_LANES,), dtype)
    arm, lanes = jax.ShapeDtypeStruct((_LANES,), jnp.int32), LaneOps()
    nature = _nature(instance.source or drawn, truth, dtype)
    _same(drawn, "draw", _traced(drawn, "draw", nature, arm, arm, noise, first=(lanes,)), reward)
    if isinstance(drawn, Source):
        none_left = _traced(drawn, "used_up", nature, arm, arm, first=(lanes,))
        if none_left is not None:
            _same(drawn, "used_up", none_left, jax.ShapeDtypeStruct((_LANES,), jnp.bool_))


def _nature(drawn: Family | Source, instance: "Instance", dtype: Any) -> Any:
    """The nature of one instance, without values."""
    fault = partial(FamilyError, _argument(drawn), drawn, _ALLOWED["nature"])
    with blamed("nature", fault):
        nature = drawn.nature(instance)
        arrays = [np.asarray(x) for x in jax.tree.leaves(nature)]
    for x in arrays:
        if x.dtype.kind not in "biuf" or x.shape[:1] != (instance.size,):
            raise fault(f"it returned {described(x)}")
    return jax.tree.map(lambda x: _as(np.asarray(x)[0], dtype), nature)


def _as(x: np.ndarray, dtype: Any) -> np.ndarray:
    return x.astype(dtype) if x.dtype.kind == "f" else x


def _argument(one: Family | Source) -> str:
    return "source" if isinstance(one, Source) else "family"


def _traced(family: Family | Source, method: str, *arrays: Any, first: tuple = ()) -> Any:
    """The shapes and types of what a method returns; `first`: arguments that are no arrays."""
    return _call(family, method, lambda *arrays: getattr(family, method)(*first, *arrays), *arrays)


def _call(family: Family | Source, method: str, f: Any, *arguments: Any) -> Any:
    with blamed(method, partial(FamilyError, _argument(family), family, _ALLOWED[method])):
        return jax.eval_shape(f, *arguments)


def _same(
    family: Family | Source, method: str, result: Any, known: Any, part: str = ""
) -> None:
    shape, dtype = getattr(result, "shape", None), getattr(result, "dtype", None)
    if shape != known.shape or dtype != known.dtype:
        note = f"{part}what it returned is {described(result)}, not {described(known)}"
        raise FamilyError(_argument(family), family, _ALLOWED[method], note)
