"""Stopping rules and eliminations, which decide when a run may end."""

from jaxelim.stopping.elimination import FullElimination, SelectiveElimination
from jaxelim.stopping.llr import LLR, Native
from jaxelim.stopping.resets import Resets

__all__ = ["LLR", "FullElimination", "Native", "Resets", "SelectiveElimination"]
