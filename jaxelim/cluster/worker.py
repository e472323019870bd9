"""Prepare a Dask worker as it starts: `dask worker ADDRESS --preload jaxelim.cluster.worker`.

The first task would do the same. But only here, in the main thread, can a worker ignore
Ctrl-C.
"""

from jaxelim.cluster.environment import set_one_device

set_one_device()
