"""The command line on one live run."""

from collections.abc import Callable

import pytest

from jaxelim.cli import main


@pytest.fixture
def shell(tmp_path, capsys) -> Callable[..., str]:
    """Run `jaxelim live COMMAND` on tmp_path/mine.live, and return what it prints."""

    def run(command: str, *words: str, code: int = 0) -> str:
        assert main(["live", command, str(tmp_path / "mine.live"), *words]) == code
        return "".join(capsys.readouterr())

    return run
