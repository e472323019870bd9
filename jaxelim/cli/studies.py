"""`jaxelim study FILE`: several rules, instances and problems, from a TOML or JSON file."""

import dataclasses
import inspect
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from jaxelim import checks
from jaxelim.cli.instances import Compiles
from jaxelim.errors import ArgumentError
from jaxelim.figures import figure_file, save
from jaxelim.files import writable_file
from jaxelim.parallel import asked_for
from jaxelim.simulation.experiment import Engine
from jaxelim.studies import study
from jaxelim.text import parse

_ELSEWHERE = ("executor", "progress")
"""Arguments of `study` that a file has not."""


@dataclasses.dataclass(frozen=True)
class StudyOf(Compiles):
    """Run the study of a file, and print its summary and its comparison."""

    file: Annotated[Path, tyro.conf.Positional]
    """A TOML or JSON file with the arguments of `je.study` by name: instances, problem, rules,
    delta, stopping, runs and so on. Problems, rules, stopping rules and thresholds are texts
    as in `jaxelim run`: "LUCB(pulls=2)". `{instance = .., costs = [..]}` gives costs."""
    runs: int | None = None
    """Number of runs; default: the file's."""
    store: Path | None = None
    """Keep finished blocks in this folder, and go on from there; default: the file's."""
    baseline: str | None = None
    """The rule that the others are compared with; default: the first."""
    by: Literal["samples", "costs"] = "samples"
    """What the comparison counts: samples, or the costs of the arms."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Write the study to this file; see `jaxelim show`."""
    figure: Path | None = None
    """Draw stopping times, their ratio to log(1/delta) and errors into this file."""
    log: bool = False
    """Draw samples on logarithmic axes."""
    workers: int = 0
    """Worker processes on this machine; 0: this process computes."""
    scheduler: str | None = None
    """Address or file of the Dask scheduler of a running cluster."""

    def act(self) -> None:
        """Run, print, and write what is asked for."""
        given = _arguments(self.file)
        for name in ("runs", "store"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        if self.output is not None:
            writable_file("output", self.output)
        if self.figure is not None:
            figure_file("figure", self.figure)
        checks.integer("workers", self.workers, low=0)
        with asked_for(self.workers, self.scheduler) as executor:
            found = study(**given, executor=executor)
        print(found.summary())
        if len(found.rules) > 1:
            print(found.compare(self.baseline, by=self.by))
        if self.output is not None:
            found.save(self.output)
            print(f"wrote {self.output}")
        if self.figure is not None:
            save(found.figure(log=self.log), self.figure)
            print(f"wrote {self.figure}")


def _arguments(path: Path) -> dict[str, Any]:
    """The arguments of `study` in a file."""
    readers = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix not in readers:
        raise ArgumentError("file", str(path), "a file that ends in .toml or .json")
    try:
        given = readers[path.suffix](path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # both parsers raise ValueErrors
        raise ArgumentError("file", str(path), "a readable file", str(error)) from error
    parameters = inspect.signature(study).parameters
    known = {name: parameters[name] for name in parameters if name not in _ELSEWHERE}
    if not isinstance(given, Mapping):
        raise ArgumentError("file", str(path), f"a table of {', '.join(known)}")
    for name in given:
        checks.choice("argument", name, known)
    for name, one in known.items():
        if one.default is inspect.Parameter.empty and name not in given:
            raise ArgumentError(name, None, f"a value in {path}")
    layout = given.get("engine", "Engine")
    return {**given, "engine": parse(layout, "engine", {"Engine": Engine})}
