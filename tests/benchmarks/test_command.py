"""The benchmark command at its smallest sizes."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def test_the_command_prints_a_table_and_writes_all_fields(tmp_path):
    output = tmp_path / "deeper" / "bench.json"
    rows = ["lucb"]
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--quick",
        "--sections",
        "targets",
        "--rows",
        *rows,
        "--runs",
        "12",
        "--max-samples",
        "150",
        "--output",
        str(output),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in [*rows, "us/sample", "useful/computed", str(output)])
    found = json.loads(output.read_text())
    here = found["environment"]
    assert {
        "date",
        "commit",
        "changed_since_commit",
        "processor",
        "cores",
        "compiler",
        "load_average",
    } <= set(here)
    assert set(here["versions"]) == {"python", "jax", "jaxlib", "numpy", "jaxelim"}
    assert here["device"]["devices"] >= 1 and found["options"]["runs"] == 12
    section = found["sections"]["targets"]
    assert [row["row"] for row in section["rows"]] == rows and not section["failed"]
    for row in section["rows"]:
        raw, call = row["raw"], row["raw"]["calls"][0]
        positive = [
            row[key]
            for key in ("us/sample", "useful/computed", "compile s", "mean tau", "target", "beyond")
        ]
        positive.append(raw["process_cpu_seconds"])
        assert all(math.isfinite(x) and x > 0 for x in positive)
        assert (
            row["useful/computed"] <= 1
            and raw["peak_memory_bytes"] >= raw["memory_before_bytes"] > 1e7
        )
        # The cap is too small for any run to stop.
        assert row["mean tau"] == 150 and row["stopped"] == 0 == row["errors"]
        drawn = 12 * (150 - 40)  # the initial pulls are not counted
        assert call["samples_drawn"] == drawn and not call["compiled"] and raw["first"]["compiled"]
        assert row["us/sample"] == pytest.approx(1e6 * call["cpu_seconds"] / drawn)
        assert raw["platform"] == "cpu" and raw["devices"] == 1 == raw["plan"]["devices"]
        if shutil.which("gcc"):
            assert row["x C"] == pytest.approx(
                2 * row["us/sample"] / (row["C before"] + row["C after"])
            )
        else:
            assert row["x C"] is None and "no gcc" in done.stdout
        assert row["reached"] is None  # targets are meant for whole runs
