"""The results of a study, by rule, instance and problem."""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import ArgumentError
from jaxelim.simulation.results.descriptions import FORMAT, dataset_of, write
from jaxelim.simulation.results.proven import of_several
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.results.summaries import compared, cut_off, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxelim.tables import Table

AXES = ("rule", "instance", "problem")
"""The axes of a study, in the order of its keys."""
Key = tuple[str, str, str]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Study:
    """The result of `study`: a `Result` for each rule, instance and problem.

    `study["LinGapE"]` is the result of a rule where there is one instance and problem.
    Else `study["LinGapE", "linear-d10", "BestArm"]`, where axes of one name may be left out.

    Attributes:
        results: by (rule, instance, problem). An interrupted study, or one that was read
            from a store, may lack some.
    """

    results: Mapping[Key, Result]

    @staticmethod
    def of(results: Iterable[tuple[Key, Result | None]]) -> "Study":
        """A study of results by their names; each instance of a batch is one of its own."""
        singles: dict[Key, Result] = {}
        for (rule, instance, problem), result in results:
            if result is not None and not result.batched:
                singles[rule, instance, problem] = result
            elif result is not None:
                for i in range(result.instance.size):
                    singles[rule, f"{instance}[{i}]", problem] = result.of_instance(i)
        return Study(singles)

    def _names(self, axis: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key[axis] for key in self.results))

    rules = property(lambda self: self._names(0), doc="The names of the rules.")
    instances = property(lambda self: self._names(1), doc="The names of the instances.")
    problems = property(lambda self: self._names(2), doc="The names of the problems.")

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Key]:
        """The keys of the results."""
        return iter(self.results)

    def __getitem__(self, key: str | tuple[str, ...]) -> Result:
        """A result, by the names of its rule, instance and problem, in this order.

        Names may be left out where one result has the others.

        Raises:
            ArgumentError: there is no such name; or several results have these names, or none.
        """
        names = [key] if isinstance(key, str) else list(key)
        known = [name for axis in range(3) for name in self._names(axis)]
        for name in names:
            checks.choice("key", name, known)
        found = []
        for one in self.results:
            left = iter(one)
            if all(name in left for name in names):  # in their order
                found.append(one)
        if len(found) != 1:
            several = "; ".join(map(", ".join, found[:3]))
            note = f"{len(found)} results have these names" + (f": {several}" if found else "")
            raise ArgumentError("key", key, "the names of one rule, instance and problem", note)
        return self.results[found[0]]

    def select(
        self, rule: Any = None, instance: Any = None, problem: Any = None, stopping: Any = None,
        delta: Any = None,
    ) -> "Study":  # fmt: skip
        """The part of a study with these names, one or several of each axis; None: all.

        Stopping rules and deltas are those of `Result.select`.

        Raises:
            ArgumentError: there is no such name.
        """
        kept = dict(self.results)
        for n, given in enumerate((rule, instance, problem)):
            known = self._names(n)
            names = known if given is None else [given] if isinstance(given, str) else given
            names = [checks.choice(AXES[n], name, known) for name in names]
            kept = {key: result for key, result in kept.items() if key[n] in names}
        if stopping is not None or delta is not None:
            kept = {key: result.select(stopping, delta) for key, result in kept.items()}
        return Study(kept)

    def groups(self) -> list[tuple[dict[str, str], dict[str, Result]]]:
        """For each instance and problem their names, and the results by rule."""
        found = []
        for at in itertools.product(self.instances, self.problems):
            named = {key[0]: one for key, one in self.results.items() if key[1:] == at}
            if named:
                found.append((dict(zip(AXES[1:], at, strict=True)), named))
        return found

    def summary(self) -> "Table":
        """Mean and standard deviation of tau, errors and cost, as of `Result.summary`.

        One row per rule, instance, problem, stopping rule and delta. Axes of one name
        have no column. With costs there is the mean cost. "s" is the work on a result in
        seconds, without compilation, in the first of its rows. Instances of a batch share it.
        """
        from jaxelim.tables import Table  # pandas is slow to import

        rows, cut = [], 0
        axes = {axis: self._names(n) for n, axis in enumerate(AXES)}
        priced = any(result.costs is not None for result in self.results.values())
        for key, result in self.results.items():
            where = {axis: name for axis, name in zip(AXES, key, strict=True)
                     if axis == "rule" or len(axes[axis]) > 1}  # fmt: skip
            cut += cut_off(result)[0]
            seconds = round(float(result.timings["seconds"]), 2)
            for n, row in enumerate(rows_of(result, priced)):
                rows.append({**where, **row, "s": seconds if n == 0 else np.nan})
        notes = [f"{cut} runs were cut off, and are in no mean."] if cut else []
        notes.append("s: seconds of work without compilation, of all stopping rules and deltas.")
        notes += of_several((key[0], result) for key, result in self.results.items())
        words = (names[0] if len(names) == 1 else f"{len(names)} {axis}s"
                 for axis, names in axes.items())  # fmt: skip
        return Table(rows, f"Study of {', '.join(words)}", notes)

    def compare(
        self, baseline: str | None = None, *, level: float = 0.95, by: str = "samples"
    ) -> "Table":
        """Compare the rules, on each instance and problem: see `je.compare`.

        Args:
            baseline: the rule that all others are compared with; None: the first.
            level, by: as of `je.compare`; all rules have the same seeds.

        Raises:
            ArgumentError: there is no such rule; and as `je.compare`.
        """
        baseline = self.rules[0] if baseline is None and self.rules else baseline
        several = {"instance": len(self.instances) > 1, "problem": len(self.problems) > 1}
        groups = [({axis: name for axis, name in where.items() if several[axis]}, named)
                  for where, named in self.groups()]  # fmt: skip
        return compared(groups, baseline, level, by)

    def figure(self, *, log: bool = False) -> "Figure":
        """Draw stopping times, their ratio to log(1/delta), and errors: see `study_figure`."""
        from jaxelim import figures  # matplotlib is slow to import

        return figures.study_figure(self, log=log)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the study to a NetCDF file, with a group for each result: `load_study` reads it.

        Raises:
            ArgumentError, StoreError: as `Result.save`.
        """
        import xarray as xr  # slow to import

        parts = {"/": xr.Dataset(attrs={"jaxelim_study": FORMAT})}
        for n, (key, result) in enumerate(self.results.items()):
            parts[f"/{n}"] = dataset_of(result).assign_attrs(key=json.dumps(key))
        write(path, parts)

    def equals(self, other: "Study") -> bool:
        """Whether both have the same names, and equal results: see `Result.equals`.

        Raises:
            ArgumentError: other is no `Study`.
        """
        if not isinstance(other, Study):
            raise ArgumentError("other", other, "a Study")
        return set(self.results) == set(other.results) and all(
            result.equals(other.results[key]) for key, result in self.results.items()
        )

    def __str__(self) -> str:
        """The summary."""
        return str(self.summary())

    def __repr__(self) -> str:
        counts = {axis: len(self._names(n)) for n, axis in enumerate(AXES)}
        sizes = (f"{n} {axis}{'s' * (n != 1)}" for axis, n in counts.items())
        return f"<Study of {', '.join(sizes)}: {len(self)} results>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()
