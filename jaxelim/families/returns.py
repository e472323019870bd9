"""Checks of what the methods of a user's reward family return.

They trace the methods, so that nothing compiles.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim import scope
from jaxelim.checks import shipped
from jaxelim.contracts import Family, Problem
from jaxelim.contracts.views import Snapshot, Statistics
from jaxelim.errors import FamilyError, JaxelimError, abbreviate, in_words
from jaxelim.families.one_parameter import OneParameter
from jaxelim.families.recorded import tested_family
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms
    from jaxelim.instances.instance import Instance

_LANES = 16
_NOISE = ("uniform", "normal", "run")
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
    "costs": "a costs(means) that returns None or finite numbers above 0, an array like means"
    + _TRACED,
    "divergence": "a divergence(x, y) that returns an array like x" + _TRACED,
    "variance": "a variance(y) that returns an array like y" + _TRACED,
    "bracket": "a bracket(mean, radius) that returns two arrays like mean" + _TRACED,
}
"""The contract of each method, in words."""


def check_settings(family: Family) -> None:
    """Check the attributes of a user's family that a call reads first.

    Raises:
        FamilyError: one of them is not allowed.
    """
    family = tested_family(family)
    if shipped(family):
        return
    pulls, scale = family.initial_pulls, family.scale
    whole = isinstance(pulls, int | np.integer) and not isinstance(pulls, bool)
    real = isinstance(scale, int | float | np.number) and not isinstance(scale, bool)
    for name, given, allowed, good in (
        ("noise", family.noise, "'uniform', 'normal' or 'run'", family.noise in _NOISE),
        ("initial_pulls", pulls, "an integer >= 1", whole and pulls >= 1),
        ("scale", scale, "a finite number > 0", real and 0 < scale < np.inf),
    ):
        if not good:
            note = f"its {name} is {abbreviate(given)}"
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
    like = lambda *shape: jax.ShapeDtypeStruct((*shape, _LANES), dtype)  # noqa: E731
    arm, go = (jax.ShapeDtypeStruct((_LANES,), kind) for kind in (jnp.int32, jnp.bool_))
    k, lanes = instance.K, LaneOps()
    if isinstance(family, OneParameter):
        means = like(k)
        for method, given in (("divergence", 2), ("variance", 1)):
            _same(family, method, _traced(family, method, *[means] * given), means)
        both = _traced(family, "bracket", means, means)
        if not isinstance(both, tuple | list) or len(both) != 2:
            raise FamilyError("family", family, _ALLOWED["bracket"], f"it returned {_said(both)}")
        for one in both:
            _same(family, "bracket", one, means)
        _check_costs(family, instance.truth, means)
    if instance.truth is not None:
        nature = _nature(family, instance.truth, dtype)
        reward = _traced(family, "draw", nature, arm, arm, like(), first=(lanes,))
        _same(family, "draw", reward, like())
        none_left = _traced(family, "used_up", nature, arm, arm, first=(lanes,))
        if none_left is not None:
            _same(family, "used_up", none_left, go)
    try:
        tables = jax.tree.map(lambda x: _as(np.asarray(x)[0], dtype), family.tables(instance))
        features = jnp.asarray(instance.arms.reshape(-1, k, instance.d)[0], dtype)
        space = family.space(lanes, features, jax.tree.map(jnp.asarray, constants))
    except JaxelimError:
        raise
    except Exception as error:
        allowed = "tables(instance) and space(lanes, features, constants) that do not raise"
        raise FamilyError("family", family, allowed, in_words(error)) from error
    first = _traced(family, "start", tables, like(k), first=(space, problem))
    if not isinstance(first, Statistics):
        raise FamilyError("family", family, _ALLOWED["start"], f"it returned {_said(first)}")
    for name, known in (("counts", like(k)), ("means", like(k)), ("t", arm)):
        _same(family, "start", getattr(first, name), known, f"{name} of ")

    def seen(stats: Statistics) -> Snapshot:
        return Snapshot.of(family, problem, space, stats)

    values, pieces = _call(
        family, "evidence", lambda now: (seen(now).evidence.values(), seen(now).shape.exists), first
    )
    _same(family, "evidence", values, jax.ShapeDtypeStruct(pieces.shape, dtype))
    now = _call(
        family, "update", lambda now, *given: family.update(seen(now), *given), first, arm, like(),
        go,
    )  # fmt: skip
    if jax.tree.structure(now) != jax.tree.structure(first):
        raise FamilyError("family", family, _ALLOWED["update"], "it returned another structure")
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(first)]
    for path, x, y in zip(paths, jax.tree.leaves(now), jax.tree.leaves(first), strict=True):
        _same(family, "update", x, y, f"{path[1:]} of ")


def _check_costs(family: OneParameter, instance: "Instance | None", means: Any) -> None:
    """Check the costs at the true means; means: estimates, [K, B] without values."""
    costs = _traced(family, "costs", means)
    if costs is None:
        return
    _same(family, "costs", costs, means)
    if instance is None:
        return
    with scope.engine():
        for truth in instance.means.reshape(-1, instance.K):
            found = np.asarray(family.costs(jnp.asarray(truth, means.dtype)))
            good = np.isfinite(found) & (found > 0)
            if not good.all():
                note = f"it returned {found[~good][0]:g} at the means of the instance"
                raise FamilyError("family", family, _ALLOWED["costs"], note)


def _nature(family: Family, instance: "Instance", dtype: Any) -> Any:
    """The family's nature of one instance, without values."""
    try:
        nature = family.nature(instance)
        arrays = [np.asarray(x) for x in jax.tree.leaves(nature)]
    except JaxelimError:
        raise
    except Exception as error:
        note = f"nature raised {in_words(error)}"
        raise FamilyError("family", family, _ALLOWED["nature"], note) from error
    for x in arrays:
        if x.dtype.kind not in "biuf" or x.shape[:1] != (instance.size,):
            raise FamilyError(
                "family", family, _ALLOWED["nature"], f"it returned {x.dtype}{list(x.shape)}"
            )
    return jax.tree.map(lambda x: _as(np.asarray(x)[0], dtype), nature)


def _as(x: np.ndarray, dtype: Any) -> np.ndarray:
    return x.astype(dtype) if x.dtype.kind == "f" else x


def _traced(family: Family, method: str, *given: Any, first: tuple = ()) -> Any:
    """The shapes and types of what a method returns; `first`: arguments that are no arrays."""
    return _call(family, method, lambda *given: getattr(family, method)(*first, *given), *given)


def _call(family: Family, method: str, f: Any, *given: Any) -> Any:
    try:
        return jax.eval_shape(f, *given)
    except (JaxelimError, FloatingPointError):  # JAX's debug_nans raises the latter
        raise
    except Exception as error:
        note = f"{method} raised {in_words(error)}"
        raise FamilyError("family", family, _ALLOWED[method], note) from error


def _same(family: Family, method: str, found: Any, known: Any, part: str = "") -> None:
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape != known.shape or dtype != known.dtype:
        note = f"{part}what it returned is {_said(found)}, not {_said(known)}"
        raise FamilyError("family", family, _ALLOWED[method], note)


def _said(x: Any) -> str:
    if isinstance(x, Array | jax.ShapeDtypeStruct):
        return f"{x.dtype}{list(x.shape)}"
    return "None" if x is None else f"a {type(x).__name__}"
