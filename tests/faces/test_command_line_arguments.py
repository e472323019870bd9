"""Every option of `jaxelim run` that is an argument of `simulate` reaches it."""

import pytest

from jaxelim import cli
from jaxelim.cli import results


class Reached(Exception):
    """Carries what `simulate` was given."""


def test_options_reach_simulate(monkeypatch):
    def simulate(*given, **settings):
        raise Reached(given, settings)

    monkeypatch.setattr(results, "simulate", simulate)
    options = {
        "ridge": 0.5, "runs": 7, "seed": 11, "max_samples": 123, "initial_pulls": 3,
        "batch": 4, "delay": 5,
    }  # fmt: skip
    words = [
        word for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]  # fmt: skip
    with pytest.raises(Reached) as reached:
        cli.main(["run", "linear-d20", "--delta", "0.2", "0.1", "--lanes", "32", *words])
    settings = reached.value.args[1]
    assert {name: settings[name] for name in options} == options
    assert tuple(settings["delta"]) == (0.2, 0.1)
    assert settings["engine"].lanes == 32
