"""Problems: answers, and the half-spaces of their alternatives. One file each."""

from jaxelim.problems.best_arm import BestArm
from jaxelim.problems.half_spaces import HalfSpaces
from jaxelim.problems.thresholding import Thresholding
from jaxelim.problems.top_m import TopM

__all__ = ["BestArm", "HalfSpaces", "Thresholding", "TopM"]
