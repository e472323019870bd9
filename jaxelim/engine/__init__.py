"""The engine: one compiled loop that runs one rule in many lanes, each at its own t."""

from jaxelim.engine.execution import GRAPHS, LANE_GROUP, Execution, cpu_options
from jaxelim.engine.loop import Loop, Program, compiled, may_be_alone, program
from jaxelim.engine.pending import Schedule, Timing
from jaxelim.engine.state import REVISION, Carry, Inputs, Lane, Outcome, Outline, Queue, Spec
from jaxelim.engine.step import outline

__all__ = [
    "GRAPHS", "LANE_GROUP", "Carry", "Execution", "Inputs", "Lane", "Loop", "Outcome",
    "Outline", "Program", "Queue", "REVISION", "Schedule", "Spec", "Timing", "compiled",
    "cpu_options", "may_be_alone", "outline", "program",
]  # fmt: skip
