"""Arguments of the command line, in each of their wrong forms."""

import json

import pytest

from jaxelim import cli
from tests.faces.refusals import (
    nothing_compiles,
)

__all__ = ["nothing_compiles"]  # a fixture of every test here


@pytest.mark.parametrize(
    "option, value, nearest",
    [
        ("--rule", "lingap", "lingape"),
        ("--rule", "unifrom", "uniform"),
        ("--problem", "bestarms", "best-arm"),
        ("--stopping", "select", "selective"),
        ("--elimination", "ful", "full"),
        ("--threshold", "heuristics", "heuristic"),
    ],
)
def test_unknown_names_on_the_command_line(capsys, option, value, nearest):
    assert cli.main(["run", "linear-d20", option, value]) == 2
    said = capsys.readouterr().err
    assert f"{option[2:]}: got '{value}'" in said and f"nearest: '{nearest}'" in said


@pytest.mark.parametrize(
    "arguments, argument",
    [
        (["linear-d21"], "name_or_path"),
        (["linear-d20", "--delta", "1.5"], "delta"),
        (["linear-d20", "--runs", "0"], "runs"),
        (["linear-d20", "--max-samples", "10"], "max_samples"),
        (["linear-d20", "--problem", "TopM(50)"], "m"),
        (["linear-d20", "--output", "no/such/folder/result.nc"], "output"),
        (["linear-d20", "--lanes", "0"], "lanes"),
        (["linear-d20", "--stopping", "native"], "stopping"),
        (["linear-d20", "--elimination", "full"], "stopping"),
        (["linear-d20", "--rule", "uniform", "--elimination", "full"], "elimination"),
    ],
)
def test_the_command_line_refuses(capsys, arguments, argument):
    assert cli.main(["run", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"jaxelim: {argument}: got ")


def test_a_file_without_an_instance_on_the_command_line(capsys, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"samples": [1, 2]}))
    assert cli.main(["run", str(path)]) == 2
    assert "result.json" in capsys.readouterr().err
