"""Cases and helpers that the tests of instances share."""

import numpy as np

import jaxelim as je

PHI = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
THETA = np.array([1.0, 0.5])


def stack(instances):
    """One batch of instances, or of those of batches, of one family, source and costs."""
    several = [instances] if isinstance(instances, je.Instance) else instances
    parts = [part for one in several for part in one.unbatched]
    arms, theta = ([getattr(part, name) for part in parts] for name in ("arms", "theta"))
    first = parts[0]
    return je.Instance(arms, theta, family=first.family, source=first.source, costs=first.costs)
