"""The paper's Table 3: `python -m experiments.table3 --runs 1000 --rules lingape`."""

import sys

from experiments import table_files

main = table_files.script(
    "table3",
    "Table 3: linear instances, d = 10; LLR, selective and full elimination, "
    "at stopping and at stopping and sampling.",
)

if __name__ == "__main__":
    sys.exit(main())
