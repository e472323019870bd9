"""How the steps of a program run: what the engine finds about a rule, and its machine.

A rule says what it is. That its runs are taken side by side or one after the other, in one
kernel or in many, changes no number of a run. So it is decided here and by measured pace.
The steps of a CPU and of a GPU differ by what `Execution` says, and by what a family's
`settled` makes of `tuned`.
"""

import dataclasses
import os
from typing import Any

import jax
from jax import Array

from jaxelim.engine.cpu.one_kernel import Traced, blocking
from jaxelim.engine.jaxprs import composite, operations
from jaxelim.lanes import LaneOps

LANE_GROUP = 16
"""Lanes come in groups of this many, so that results do not depend on the number of lanes.

In smaller groups XLA:CPU rounds LinGame's weights differently. One call of `choose` serves as
many lanes that wait.
"""
PATIENCE, PATIENCE_ONE_BY_ONE = 1 / 4, 1 / 16
"""The share of live lanes that wait before `choose` is called, and where it takes them singly.

Side by side lanes wait for the slowest of a batch, and unused places cost as much as others.
One by one, a call costs the same a lane however many wait.
"""
_WIDTH = 2.5
"""Least mean width of the operations of a choice in one kernel where there is no matrix.

The width is how many numbers an operation gives, a lane. Trees over arms have width 1.
"""
_OF_A_TREE = 4
"""Operations of a tree, an entry: a reduction counts as so many of width 1."""
_REDUCTIONS = frozenset(
    "argmax argmin reduce_max reduce_min reduce_sum reduce_and reduce_or".split()
)

GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CONDITIONAL,WHILE",
    "xla_gpu_graph_min_graph_size": 1,
}
"""Options of XLA:GPU that make one CUDA graph of a whole call of `advance`.

By default its loops are run by the host, which waits at each test.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """How the steps of a program run."""

    lanes: int  # per device; 1 where runs are taken one after the other
    chunk: int  # steps
    queue: int  # capacity in runs, per device
    devices: int
    gpu: bool = False  # else a CPU (see `jaxelim.lanes`)
    by_vmap: bool = False  # whether the rule's methods are called under `jax.vmap`
    one_kernel: bool = False  # whether the steps of all lanes are compiled into one kernel
    inner_loops: bool = False  # whether every step of all lanes has a loop inside

    @property
    def single(self) -> bool:
        """Whether one lane takes runs one after the other."""
        return self.lanes == 1

    @property
    def in_kernel(self) -> bool:
        """Whether steps have the form for one kernel, which those of a single lane always have."""
        return not self.gpu and (self.one_kernel or self.single)

    def lane_ops(self, flag: Array) -> LaneOps:
        """The primitives of the program; `flag` as in `Inputs`."""
        return LaneOps(gpu=True) if self.gpu else LaneOps(flag, kernel=self.in_kernel)

    def compiler_options(self, optimization: str | None) -> dict[str, Any] | None:
        """The options of XLA; those that XLA_FLAGS names for a GPU are left to it.

        Args:
            optimization: LLVM's level for a CPU, or None, as the family says.
        """
        if not self.gpu:
            # XLA makes one kernel of such steps and their loop, which is slower than many.
            many = {"xla_disable_hlo_passes": "small-while-loop-hoisting"}
            return cpu_options(optimization) | (many if self.inner_loops else {})
        if jax.default_backend() != "gpu":
            return None
        named = os.environ.get("XLA_FLAGS", "")
        return {name: value for name, value in GRAPHS.items() if name not in named}


def cpu_options(optimization: str | None) -> dict[str, str]:
    """Options of XLA:CPU for a program, at LLVM's level `optimization`; None: XLA's choice."""
    options = {"xla_cpu_prefer_vector_width": "512"}
    if optimization is not None:
        options["xla_backend_optimization_level"] = optimization
    return options


def suits_one_kernel(choose: Traced, lanes: int, arms: int, has_matrix: bool) -> bool:
    """Whether steps gain from one kernel, by the operations of a rule's `choose`.

    They lose by a loop, which a library or a kernel of its own does faster. With a matrix
    the state of fewer lanes leaves room in the cache. Without one they gain where `choose`
    computes with vectors more than it compares.

    Args:
        choose: traced on all lanes.
        lanes: their number.
        arms: the number of arms.
        has_matrix: whether the evidence has a matrix.
    """
    jaxpr = choose.closed.jaxpr
    if blocking(jaxpr):
        return False
    if has_loop(choose):
        return False
    if has_matrix:
        return True
    numbers, count = 0.0, 1
    for equation in operations(jaxpr):
        if composite(equation):
            continue
        size = sum(v.aval.size for v in equation.outvars) / lanes
        if size > arms:  # K^2 numbers of a run leave no room in the cache
            return False
        numbers, count = numbers + size, count + 1
        if equation.primitive.name in _REDUCTIONS:
            tree = _OF_A_TREE * equation.invars[0].aval.size / lanes
            numbers, count = numbers + tree, count + tree
    return numbers >= _WIDTH * count


def has_loop(choose: Traced) -> bool:
    """Whether a rule's `choose` has a loop."""
    return any(one.primitive.name in ("while", "scan") for one in operations(choose.closed.jaxpr))


def patience(choose: Traced) -> float:
    """The share of live lanes that wait before `choose` is called.

    Args:
        choose: traced on all lanes; the first of its arguments says how many are read.
    """
    jaxpr = choose.closed.jaxpr
    read = jaxpr.invars[0]
    one_by_one = any(v is read for equation in jaxpr.eqns for v in equation.invars)
    return PATIENCE_ONE_BY_ONE if one_by_one else PATIENCE
