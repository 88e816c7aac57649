"""A set of configuration files in a folder."""

from dataclasses import dataclass
from pathlib import Path

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.job import Job
from models.watermark import WatermarkType
from services.configuration_files import FILE_TYPES, FOLDERS, read_all

#: Where the JSON Schemas are, below the folder of a set.
SCHEMAS = "schemas"


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Contents by relative name; `ignored` look like parts of the set and are none."""

    folder: Path
    contents: dict[str, bytes]
    ignored: tuple[str, ...]

    def validated(self) -> Configuration:
        """Return the set; raise ConfigurationError with a line for each fault."""
        if not self.contents:
            msg = (
                f"{self.folder.as_posix()}: holds no configuration; name the folder in which the "
                f"folders {', '.join(FOLDERS)} are"
            )
            raise ConfigurationError(msg)
        configuration = read_all(self.folder.as_posix(), self.contents)
        if faults := [
            fault for job in configuration.jobs.values() if (fault := _unknown_type(job))
        ]:
            raise ConfigurationError("\n".join(faults))
        return configuration


def _unknown_type(job: Job) -> str | None:
    """Say what the app only warns of, as the specification asks: such a watermark never moves."""
    if job.watermark is None:
        return None
    kind = job.watermark.type
    if WatermarkType.of(kind) is not WatermarkType.UNKNOWN:
        return None
    known = ", ".join(each for each in WatermarkType if each is not WatermarkType.UNKNOWN)
    return f"job {job.name!r}: watermark.type {kind!r} is not known; use one of {known}"


def read_folder(folder: Path) -> LocalFiles:
    """Read what the app would read. Hidden files are left out: editors and systems make them."""
    contents: dict[str, bytes] = {}
    ignored: list[str] = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        relative = file.relative_to(folder)
        name = relative.as_posix()
        in_folder = len(relative.parts) > 1 and relative.parts[0] in FOLDERS
        if any(part.startswith(".") for part in relative.parts) or relative.parts[0] == SCHEMAS:
            continue
        if in_folder and name.endswith(FILE_TYPES):
            contents[name] = file.read_bytes()
        elif in_folder or name.lower().endswith(FILE_TYPES):
            ignored.append(name)
    return LocalFiles(folder, contents, tuple(ignored))
