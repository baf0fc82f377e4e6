"""Commands called as a user calls them, without a process of their own."""

from pathlib import Path

import pytest

from litebert.__main__ import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What is said of a user's mistake: one line, and exit code 2."""
    with pytest.raises(SystemExit) as exit_code:
        main([str(argument) for argument in arguments])
    assert exit_code.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.err.startswith("litebert: ")
    return captured.err
