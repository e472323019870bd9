"""The paper's Table 4: `python -m experiments.table4 --runs 1000 --rules lingape fws --seed 7`."""

import dataclasses
import sys

from experiments import tables


@dataclasses.dataclass(frozen=True)
class Table4(tables.TableOptions):
    """Table 4: unstructured instances, K = 40; LLR, selective elimination at stopping, and at stopping and sampling."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; returns the exit code."""
    return tables.main("table4", Table4, arguments)


if __name__ == "__main__":
    sys.exit(main())
