"""Simulations on many processes and machines.

with jaxelim.cluster.local() as client:
    result = je.simulate(instance, problem, rule, runs=10**6, executor=client)

`local` starts workers on this machine, `connect` reaches a cluster that runs already.
Both need the package distributed: in a checkout, `pip install '.[cluster]'`. Workers get blocks of
runs. A run is a function of the arguments, the seed and its index, so a block is the
same on every worker, and one whose worker dies is computed again.
"""

from jaxelim.cluster.clients import connect, local
from jaxelim.cluster.dispatch import Listener, WorkBlock, compute_all
from jaxelim.cluster.executors import workers_of

__all__ = ["WorkBlock", "Listener", "compute_all", "connect", "local", "workers_of"]
