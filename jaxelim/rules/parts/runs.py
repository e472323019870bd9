"""Work of one run at a time, for the lanes of a rule: solves of an allocation."""

from collections.abc import Callable
from typing import Any

import jax
from jax import Array

from jaxelim.lanes import LaneOps

Tree = Any


def by_run(lanes: LaneOps, f: Callable, like: Tree, *arguments: Tree) -> Tree:
    """f(*arguments) of each run; arrays have the lanes last, those of the result as `like`.

    A CPU takes the lanes one after another, a GPU all at once.
    """
    leaf: Array = jax.tree.leaves(like)[0]
    if leaf.ndim == 1:
        return f(*arguments)
    if lanes.flag is None:
        return jax.vmap(f, in_axes=-1, out_axes=-1)(*arguments)
    return lanes.one_by_one(lambda i: f(*jax.tree.map(lambda x: x[..., i], arguments)), like)
