from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.operator_console.fakes import files


class Folder:
    """A folder with a set of configuration files in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.as_posix()

    def write(self, contents: Mapping[str, bytes]) -> None:
        for name, content in contents.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "set")
    made.write(files())
    return made
