"""What the command lines of all experiments share: options, a study in a store, how they end.

Runs are computed in blocks, in this process, on workers here or on a cluster. A finished block
is stored and never computed again.
"""

import dataclasses
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tyro

import jaxelim as je
from experiments import paper
from jaxelim import checks
from jaxelim.errors import ArgumentError, JaxelimError, WorkerError
from jaxelim.files import make_folder, writable_file
from jaxelim.parallel import asked_for, use_all_cores

_JOIN = (
    "Join the folders of all shards with `je.store.merge([A, B], C)`, then give the same command "
    "with --output C and no --shard."
)


@dataclasses.dataclass(frozen=True)
class Options:
    """Options that all experiments share."""

    told: ClassVar[tuple[str, ...]] = ("seed", "max_samples")
    """Options that are in an experiment's name where they are not the usual ones."""
    runs: int = 100
    """Runs of every experiment, indexes 0 .. runs - 1; finished runs are not repeated."""
    seed: int = 0
    """Seed of the noise."""
    output: Path = Path("results")
    """Folder of the finished blocks, tables and figures."""
    shard: str = "1/1"
    """i/n: compute the i-th of n parts on its own machine; then `je.store.merge`."""
    block: int = 1000
    """Most runs per file: the loss of a killed job, and the unit of shards."""
    max_samples: int = paper.CAP
    """Cap on a run's samples; runs that reach it are cut off and flagged."""
    workers: int | None = None
    """Worker processes on this machine; 0: compute in this process. Default: one a core."""
    scheduler: str | None = None
    """Address of the Dask scheduler of a running cluster, or its file; see
    docs/how-to/clusters.md."""

    def __post_init__(self) -> None:
        checks.integer("runs", self.runs, low=1, high=checks.MAX_RUNS)
        checks.integer("block", self.block, low=1)
        checks.seed(self.seed)
        parse_shard(self.shard)
        if self.workers is not None:
            checks.integer("workers", self.workers, low=0)

    def named(self, name: str) -> str:
        """An experiment's name, and a seed, cap or other option that is not the usual one.

        A folder can then hold several.
        """
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        values = {key: getattr(self, key) for key in self.told}
        return name + "".join(f"/{key}={x}" for key, x in values.items() if x != usual[key])

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of every experiment: the shard's runs, the seed, the cap, one device."""
        number, shards = parse_shard(self.shard)
        runs = np.array_split(np.arange(self.runs), shards)[number - 1]
        return {"runs": runs, "seed": self.seed, "max_samples": self.max_samples,
                "engine": je.Engine(devices=1)}  # fmt: skip

    def as_in(self, kind: Any, **more: Any) -> Any:
        """Another kind of options, with those that all experiments share."""
        shared = {field.name: getattr(self, field.name) for field in dataclasses.fields(Options)}
        return kind(**{**shared, **more})


def parse_shard(text: str) -> tuple[int, int]:
    """Parse "i/n" into (i, n), with i from 1 to n.

    Raises:
        ArgumentError: the text has another form.
    """
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise ArgumentError("shard", text, "i/n with 1 <= i <= n, such as 2/3")
    return int(first), int(second)


def markdown(rows: list[dict[str, str]]) -> str:
    """Format rows with equal keys as a Markdown table."""
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(row[k]) for k in head) + " |" for row in rows])


def studied(options: Options, files: Sequence[Path], *grid: Any, **more: Any) -> je.Study | None:
    """`je.study` with the options' store and workers; None, with a message, for a shard of several.

    The files, which the caller writes, are checked first. A grid has instances, problem and
    rules, which get the options' runs, seed and cap; or experiments by name alone.
    """
    for path in files:
        make_folder(path.parent)
        writable_file("output", path)
    if len(grid) > 1:
        more |= options.settings
    with asked_for(options.workers, options.scheduler) as executor:
        kept: Any = dict(store=options.output, block=options.block, executor=executor)
        found = je.study(*grid, **kept, **more)
    if parse_shard(options.shard)[1] > 1:
        print(_JOIN)
        return None
    return found


def script(
    name: str, kind: type, act: Callable[[Any], None], given: list[str], about: str | None = None
) -> int:
    """Run an experiment on parsed options; print errors in one line.

    Returns:
        The exit code: 0, 2 for an error, 130 after an interrupt.
    """
    command = shlex.join(["python", "-m", "experiments", name, *given])
    again = f"Every finished block is kept; to go on from there, say again:\n  {command}"
    try:
        config = tyro.cli(kind, args=given, description=about or kind.__doc__)
        use_all_cores()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        act(config)
    except KeyboardInterrupt:
        print(f"\nInterrupted. {again}", file=sys.stderr)
        return 130
    except JaxelimError as error:
        more = f". {again}" if isinstance(error, WorkerError) else ""
        print(f"{type(error).__name__}: {error}{more}", file=sys.stderr)
        return 2
    return 0

