"""The paper's Table 1: `python -m experiments.table1 --runs 1000 --rules lingape fws --seed 7`."""

import dataclasses
import sys

from experiments import tables


@dataclasses.dataclass(frozen=True)
class Table1(tables.TableOptions):
    """Table 1: linear instances, K = 50, d = 20; LLR, selective elimination at stopping, and at stopping and sampling."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; returns the exit code."""
    return tables.main("table1", Table1, arguments)


if __name__ == "__main__":
    sys.exit(main())
