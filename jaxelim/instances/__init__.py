"""Instances: the six of the paper's tables, instance files, and draws by the paper's protocols."""

from jaxelim.instances.generators import (
    linear_d10,
    linear_d20,
    soare,
    two_dimensional,
    unstructured,
)
from jaxelim.instances.shipped import Description, describe, load_instance, load_items, names

__all__ = ["Description", "describe", "linear_d10", "linear_d20", "load_instance", "load_items",
           "names", "soare", "two_dimensional", "unstructured"]  # fmt: skip
