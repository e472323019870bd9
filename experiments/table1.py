"""The paper's Table 1: `python -m experiments.table1 --runs 1000 --rules lingape`."""

import sys

from experiments import table_files

main = table_files.script(
    "table1",
    "Table 1: linear instances, K = 50, d = 20; LLR, selective elimination at stopping, "
    "and at stopping and sampling.",
)

if __name__ == "__main__":
    sys.exit(main())
