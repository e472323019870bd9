"""Finished blocks of runs on disk, one NetCDF file each, written atomically and checksummed.

A block holds the runs first .. last of one cell. Its file is named by the cell, by a
digest of the settings (all that determines the numbers) and by its runs:
`table1-bai-LinGapE-watched.2f0c...e1.0000000-0000099.nc`.

A block is written under a temporary name, flushed to the disk and renamed. A job that
is killed, or whose machine is switched off, leaves complete blocks and at most one
temporary file. Every read compares the checksum of all arrays.

Run r of a seed is the same run in every call. So blocks of any size, order and machine
can be joined.
"""

from jaxelim.files import write_whole
from jaxelim.store.block import FORMAT, Block, Entry, checksum, slug
from jaxelim.store.folder import Store
from jaxelim.store.held import Held, Stored, ranges
from jaxelim.store.merging import Merged, merge
from jaxelim.store.settings import REVISION, canonical, differences, digest

__all__ = [
    "Block",
    "Entry",
    "FORMAT",
    "Held",
    "Merged",
    "REVISION",
    "Store",
    "Stored",
    "canonical",
    "checksum",
    "differences",
    "digest",
    "merge",
    "ranges",
    "slug",
    "write_whole",
]
