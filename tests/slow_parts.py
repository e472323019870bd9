"""The slow suite in parts that fit 80 minutes on two cores.

    python -m tests.slow_parts            list the parts, and when each last passed
    python -m tests.slow_parts 3 5        run parts 3 and 5
    python -m tests.slow_parts all        run all parts, one after the other

`make test-slow PART=3` runs a part too. A part that passes is recorded in
docs/reference/slow-suite.md, with the commit, if no tracked file has changes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "slow-suite.md"
LIMIT = 80
"""Minutes of a part on two cores."""

PARTS: dict[int, tuple[str, ...]] = {
    1: (
        "benchmarks/test_benchmarks.py", "figures/", "results/",
        "stopping/", "store/", "thresholds/test_deviations.py",
    ),
    2: ("experiments/", "faces/", "lower_bound/", "saddle/"),
    3: ("engine/", "foundations/", "studies/", "testing/"),
    4: (
        "benchmarks/test_command.py", "benchmarks/test_gpu_check.py", "cluster/", "contracts/",
        "live/", "mixtures/", "thresholds/test_mixture_errors.py",
        "thresholds/test_piecewise.py",
    ),
    5: ("families/test_arm_families.py", "families/test_bernoulli.py", "families/test_bounded.py"),
    6: (
        "families/test_check_family.py", "families/test_cross_cache.py",
        "families/test_float32.py", "families/test_logistic.py",
        "families/test_one_parameter.py", "families/test_recorded.py",
        "families/test_ridge.py", "families/test_slack_pairs.py",
        "families/test_twin_families.py", "families/test_unknown_variance.py",
    ),
    7: (
        "sampling/test_fws.py", "sampling/test_games.py", "sampling/test_lazy_tas.py",
        "sampling/test_traces.py", "sampling/test_track_and_stop.py", "sampling/test_twin.py",
        "sampling/test_twin_agreement.py", "sampling/test_unknown_variance_tas.py",
    ),
    8: (
        "sampling/test_arm_rules.py", "sampling/test_costs.py",
        "sampling/test_delta_correctness.py",
        "sampling/test_items.py", "sampling/test_native_rules.py",
        "sampling/test_references.py", "sampling/test_slack.py",
    ),
    9: ("sampling/test_top_two.py",),
    10: ("sampling/test_family_rules.py 1/2",),
    11: ("sampling/test_family_rules.py 2/2",),
    12: ("sampling/test_family_laws.py 1/2",),
    13: ("sampling/test_family_laws.py 2/2",),
}  # fmt: skip
"""Folders, files and shares of files: `1/2` is the first half, by a hash of a test's name."""


def holds(place: str, test: str) -> bool:
    """Whether an entry of a part holds a test, by its id."""
    name, _, share = place.partition(" ")
    if not test.removeprefix("tests/").startswith(f"{name}::" if name.endswith(".py") else name):
        return False
    if not share:
        return True
    i, n = map(int, share.split("/"))
    return zlib.crc32(test.encode()) % n == i - 1


def parts_of(test: str) -> list[int]:
    """The parts that hold a test, by its id."""
    return [part for part, places in PARTS.items() for place in places if holds(place, test)]


class Passed(NamedTuple):
    """A row of the page."""

    part: object
    what: str
    tests: str
    date: str
    commit: str
    minutes: str
    cores: str


TITLE = Passed("Part", "Tests of", "Tests", "Last passed", "Commit", "Minutes", "Cores")
BEGIN, END = "<!-- parts: `make test-slow PART=n` -->\n", "<!-- /parts -->"


def rows(text: str) -> dict[int, Passed]:
    """The rows of a page's table by part."""
    lines = text.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {int(part): Passed(int(part), *more) for part, *more in cells}


def what(part: int) -> str:
    """A part's folders and files, as a cell of the table."""
    return ", ".join(f"`tests/{place}`" for place in PARTS[part])


def with_rows(text: str, known: dict[int, Passed]) -> str:
    """The page with a row for each part; parts without a known row have not passed yet."""
    never = ("", "not yet", "", "", "")
    found = [known.get(part, Passed(part, "", *never))._replace(what=what(part)) for part in PARTS]
    lines = [f"| {' | '.join(map(str, row))} |\n" for row in (TITLE, ("---",) * 7, *found)]
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{''.join(lines)}{END}{rest.partition(END)[2]}"


def git(*words: str) -> str:
    asked = ["git", "-C", str(ROOT), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def changed() -> bool:
    """Whether a tracked file has changes, the page apart."""
    page = f":(exclude){PAGE.relative_to(ROOT)}"
    return bool(git("status", "--porcelain", "--untracked-files=no", "--", ".", page))


def counted(report: Path) -> dict[str, int]:
    """The numbers of tests, failures, errors and skipped tests in a JUnit report."""
    suites = list(ElementTree.parse(report).iter("testsuite"))
    names = ("tests", "failures", "errors", "skipped")
    return {name: sum(int(suite.get(name, 0)) for suite in suites) for name in names}


def run(part: int, workers: int) -> bool:
    """Run a part and record it if it passed; the answer is whether it did."""
    commit, clean = git("rev-parse", "--short", "HEAD"), not changed()
    environment = {name: x for name, x in os.environ.items() if name != "XLA_FLAGS"}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadgroup",
                   "-m", "slow", "--slow-part", str(part), f"--junitxml={report}",
                   "--durations=10", "tests"]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        counts = counted(report) if report.exists() else {}
    minutes = (time.monotonic() - began) / 60
    print(f"part {part}: {counts}, {minutes:.0f} minutes, {workers} workers", flush=True)
    if minutes * workers > 2 * LIMIT:
        print(f"part {part} does not fit {LIMIT} minutes on two cores: divide it", flush=True)
    if done or not counts or counts["failures"] or counts["errors"]:
        return False
    if not clean or changed() or git("rev-parse", "--short", "HEAD") != commit:
        print("not recorded: tracked files have changes", flush=True)
        return True
    today = datetime.now(UTC).date().isoformat()
    tests = str(counts["tests"] - counts["skipped"])
    row = Passed(part, "", tests, today, commit, f"{minutes:.0f}", str(workers))
    text = PAGE.read_text()
    PAGE.write_text(with_rows(text, rows(text) | {part: row}))
    print(f"recorded in {PAGE.relative_to(ROOT)}", flush=True)
    return True


def main(words: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help="numbers of parts, or `all`")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--workers", type=int, default=cores, help="processes of pytest")
    given = parser.parse_args(words if words is None else list(words))
    asked = list(PARTS) if given.parts == ["all"] else [int(part) for part in given.parts]
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        parser.error(f"no such parts: {unknown}; there are {min(PARTS)} to {max(PARTS)}")
    if not asked:
        for row in rows(with_rows(PAGE.read_text(), rows(PAGE.read_text()))).values():
            print(f"{row.part:3}  {row.date:10}  {row.commit:8}  {row.minutes:>3}  {row.what}")
        return 0
    failed = [part for part in asked if not run(part, given.workers)]
    if failed:
        print(f"failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
