"""Every command explains itself, and stands in the documentation."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from devstack.processes import ROOT
from operator_console.cli import main
from operator_console.console import EXIT_CODES

PAGE = (ROOT / "docs" / "operator-console.md").read_text("utf-8")


def _commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, *path, name)
        else:
            yield (*path, name)


COMMANDS = list(_commands(main))
LEAVES = [path for path in COMMANDS if path not in {(), ("watermarks",)}]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_has_examples_and_exit_codes(path: tuple[str, ...]) -> None:
    text = CliRunner().invoke(main, [*path, "--help"]).output
    assert "Example" in text
    assert " ".join(["python -m operator_console", *path]) in text
    assert "0  done" in text
    assert "2  wrong usage" in text


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_a_command_is_documented_and_speaks_json(path: tuple[str, ...]) -> None:
    assert f"\n## {' '.join(path)}\n" in PAGE
    # The reference is a page for people; the schemas are the same as JSON.
    expected = path != ("reference",)
    assert ("--json" in CliRunner().invoke(main, [*path, "--help"]).output) is expected


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_option_has_help(path: tuple[str, ...]) -> None:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_the_documentation_has_the_exit_codes() -> None:
    codes = [line.split()[0] for line in EXIT_CODES.splitlines() if line.startswith("  ")]
    assert codes == ["0", "1", "2"]
    assert all(f"\n| {code} | " in PAGE for code in codes)
