"""The engine: one compiled loop that runs one rule in many lanes, each at its own t."""

from jaxelim.engine.loop import Program, compiled, may_be_alone, program
from jaxelim.engine.state import LANE_GROUP, REVISION, Carry, Execution, Inputs, Lane, Queue, Spec
from jaxelim.engine.step import outline

__all__ = [
    "LANE_GROUP", "REVISION", "Carry", "Execution", "Inputs", "Lane", "Program", "Queue", "Spec",
    "compiled", "may_be_alone", "outline", "program",
]  # fmt: skip
