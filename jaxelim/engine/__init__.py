"""The engine: one compiled loop that runs one rule in many lanes, each at its own t."""

from jaxelim.engine.loop import (
    BURST,
    GRAPHS,
    Loop,
    Program,
    compiled,
    compiler_options,
    cpu_options,
    outline,
    program,
)
from jaxelim.engine.state import (
    LANE_GROUP,
    REVISION,
    Carry,
    Inputs,
    Lane,
    Outcome,
    Queue,
    Spec,
)

__all__ = [
    "BURST", "GRAPHS", "LANE_GROUP", "Carry", "Inputs", "Lane", "Loop", "Outcome",
    "Program", "Queue", "REVISION", "Spec", "compiled", "compiler_options",
    "cpu_options", "outline", "program",
]  # fmt: skip
