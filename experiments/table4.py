"""The paper's Table 4: `python -m experiments.table4 --runs 1000 --rules lingape`."""

import sys

from experiments import table_files

main = table_files.script(
    "table4",
    "Table 4: unstructured instances, K = 40; LLR, selective elimination at stopping, "
    "and at stopping and sampling.",
)

if __name__ == "__main__":
    sys.exit(main())
