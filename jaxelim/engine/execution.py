"""How the steps of a program run: what the engine finds about a rule, and its machine.

That runs are taken side by side or one after the other changes no number of a run.
The steps of a CPU and of a GPU differ by what `Execution` says, and by what a family's
`settled` makes of `tuned`.
"""

import dataclasses
import os
from typing import Any

import jax
from jax import Array

from jaxelim.engine.jaxprs import operations
from jaxelim.engine.one_lane import Traced
from jaxelim.lanes import LaneOps

LANE_GROUP = 16
"""Lanes come in groups of this many, so that results do not depend on the number of lanes.

In smaller groups XLA:CPU rounds LinGame's weights differently.
"""

_SERVED_ON_A_GPU = 1024
"""Lanes that one call of `choose` serves on a GPU, whose kernels take as long for 16."""

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

    @property
    def single(self) -> bool:
        """Whether one lane takes runs one after the other."""
        return self.lanes == 1

    @property
    def served(self) -> int:
        """Lanes that wait for rare work and that one call of `choose` serves, at most."""
        return min(_SERVED_ON_A_GPU if self.gpu else LANE_GROUP, self.lanes)

    def lane_ops(self, flag: Array) -> LaneOps:
        """The primitives of the program; `flag` as in `Inputs`."""
        return LaneOps(gpu=True) if self.gpu else LaneOps(flag, kernel=self.single)

    def compiler_options(
        self, optimization: str | None, inner_loops: bool = False
    ) -> dict[str, Any] | None:
        """The options of XLA; those that XLA_FLAGS names for a GPU are left to it.

        Args:
            optimization: LLVM's level for a CPU, or None, as the family says.
            inner_loops: whether every step has a loop inside.
        """
        if not self.gpu:
            # XLA makes one kernel of such steps and their loop, which is slower than many.
            many = {"xla_disable_hlo_passes": "small-while-loop-hoisting"}
            return cpu_options(optimization) | (many if inner_loops else {})
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


def has_loop(choose: Traced) -> bool:
    """Whether a rule's `choose` has a loop."""
    return any(one.primitive.name in ("while", "scan") for one in operations(choose.closed.jaxpr))
