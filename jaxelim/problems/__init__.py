"""Problems: answers, and the half-spaces of their alternatives."""

from jaxelim.problems.arms import BestArm, Thresholding, TopM
from jaxelim.problems.half_spaces import HalfSpaces

__all__ = ["BestArm", "HalfSpaces", "Thresholding", "TopM"]
