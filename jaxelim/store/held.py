"""The joined blocks of one cell, with each run once."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr

from jaxelim.errors import ConflictError, DamagedFileError
from jaxelim.store.block import Block

_COLUMNS = ("stopping", "delta", "cut off", "mean tau", "sd", "wrong")


@dataclasses.dataclass(frozen=True)
class Held:
    """What a store holds of one cell.

    Attributes:
        data: all runs, sorted, each once; None if there are none.
        blocks: the blocks of these runs.
        damaged: one error for each damaged file.
    """

    data: xr.Dataset | None
    blocks: tuple[Block, ...]
    damaged: tuple[DamagedFileError, ...]

    @property
    def runs(self) -> np.ndarray:
        """Run indices [run], sorted."""
        return np.zeros(0, np.int64) if self.data is None else self.data["run"].values

    def work(self, name: str) -> float:
        """The sum over blocks of one entry of their work."""
        return float(sum(block.work.get(name, 0) for block in self.blocks))


@dataclasses.dataclass(frozen=True)
class Stored:
    """A cell of a store."""

    name: str
    held: Held
    digest: str = ""
    """Of the settings."""

    @staticmethod
    def of(block: Block) -> "Stored":
        """A block alone."""
        return Stored(block.name, Held(block.data, (block,), ()), block.key[0])

    def rows(self) -> list[dict]:
        """One row per instance, stopping rule and delta.

        A row has runs, truncated runs, mean and sd of tau, and errors. A cell without
        readable blocks has one row without numbers.
        """
        data = self.held.data
        shared = {"cell": self.name, "runs": ranges(self.held.runs)}
        if data is None or not {"samples", "stopped", "correct"} <= set(data.data_vars):
            return [shared | dict.fromkeys(_COLUMNS, "")]
        batched = "instance" in data.dims
        places = itertools.product(
            range(data.sizes["instance"]) if batched else [0],
            enumerate(data["stopping"].values),
            enumerate(data["delta"].values),
        )
        rows = []
        for i, (s, stopping), (k, delta) in places:
            where = {"stopping": s, "delta": k} | ({"instance": i} if batched else {})
            runs = data.isel(where)
            stopped = runs["stopped"].values
            tau = runs["samples"].values[stopped].astype(float)
            wrong = int((~runs["correct"].values[stopped]).sum())
            mean = float(tau.mean()) if tau.size else float("nan")
            sd = float(tau.std(ddof=1)) if tau.size > 1 else float("nan")
            numbers = str(stopping), float(delta), int((~stopped).sum()), mean, sd
            row = dict(zip(_COLUMNS, (*numbers, f"{wrong}/{tau.size}"), strict=True))
            rows.append(shared | row | ({"cell": f"{self.name}[{i}]"} if batched else {}))
        return rows


def ranges(runs: Sequence[int] | np.ndarray) -> str:
    """Sorted run indices in words: '0-99, 200-299'."""
    runs = np.asarray(runs)
    if runs.size == 0:
        return "none"
    ends = np.flatnonzero(np.diff(runs) != 1)
    firsts, lasts = (
        runs[np.concatenate([[0], ends + 1])],
        runs[np.concatenate([ends, [runs.size - 1]])],
    )
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def joined(blocks: Sequence[Block]) -> xr.Dataset | None:
    """All runs of blocks of the same settings, sorted, each once.

    Raises:
        ConflictError: two blocks disagree on a run that both have.
    """
    if not blocks:
        return None
    order = sorted(blocks, key=lambda block: (int(block.runs[0]), -block.runs.size))
    parts: list[xr.Dataset] = []
    kept: list[Block] = []  # those that a later block may overlap
    end = -1
    for block in order:
        runs = block.runs
        kept = [other for other in kept if int(other.runs[-1]) >= int(runs[0])]
        for other in kept:
            both = np.intersect1d(runs, other.runs)
            if both.size and not block.data.sel(run=both).identical(other.data.sel(run=both)):
                raise ConflictError(
                    block.path,
                    f"it has other numbers than {other.path} for the same settings and runs "
                    f"{ranges(both)}",
                )
        kept.append(block)
        fresh = runs > end
        if fresh.any():
            parts.append(block.data.isel(run=np.flatnonzero(fresh)))
            end = int(runs[-1])
    if len(parts) == 1:
        return parts[0]
    return xr.concat(
        parts, "run", data_vars="minimal", coords="minimal", compat="equals", join="exact"
    )
