"""The paper's Table 3: `python -m experiments.table3 --runs 1000 --rules lingape fws --seed 7`."""

import dataclasses
import sys

from experiments import tables


@dataclasses.dataclass(frozen=True)
class Table3(tables.TableOptions):
    """Table 3: linear instances, d = 10; LLR, selective and full elimination, at stopping and at stopping and sampling."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; returns the exit code."""
    return tables.main("table3", Table3, arguments)


if __name__ == "__main__":
    sys.exit(main())
