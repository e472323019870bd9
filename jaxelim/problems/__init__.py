"""Problems: answers, and the half-spaces of their alternatives."""

from jaxelim.problems.best_arm import BestArm, TopM
from jaxelim.problems.half_spaces import HalfSpaces
from jaxelim.problems.thresholding import Thresholding

__all__ = ["BestArm", "HalfSpaces", "Thresholding", "TopM"]
