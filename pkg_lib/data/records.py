"""Data sets of other authors, read in place and never committed: records and source files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pkg_lib.core import hub, reading
from pkg_lib.core.data_folders import data_folder, how_to_provide
from pkg_lib.core.hub_data import load_rows
from pkg_lib.core.reading import Fields
from pkg_lib.core.source_tree import read_python
from pkg_lib.core.types import BenchmarkMissingError, UserError

T = TypeVar("T")
# What making a value of a row raises if the row is not a record of the data set.
NO_RECORD = (LookupError, ValueError, TypeError, AttributeError, SyntaxError, RecursionError)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set in a directory of the user's, or on the Hugging Face hub.

    Attributes:
        title: What messages call it.
        variable: Environment variable that names the directory.
        source: Where to download the files, for messages.
        on_hub: Repository of the hub, and a configuration if it has several. All splits are read,
            but only if `variable` is not set. Empty if the hub does not have the data set.
    """

    title: str
    variable: str
    source: str
    on_hub: tuple[str, ...] = ()

    @property
    def home(self) -> str:
        """Where the data set comes from, in words."""
        hub_part = f", else hub: {self.on_hub[0]}" if self.on_hub else ""
        return f"directory in {self.variable}{hub_part}"

    @property
    def asks_hub(self) -> bool:
        """Whether reading it would download from the hub."""
        return bool(self.on_hub) and data_folder(self.variable) is None

    def records(
        self,
        names: Sequence[str],
        make: Callable[[Any], T],
        fields: Fields = (),
    ) -> list[T]:
        """Read the records of the first file that exists, or else of the hub.

        Args:
            names: The files, below the directory that the user names.
            make: Makes a value of a record.
            fields: The fields that a record must have, with their types.

        Returns:
            What `make` returns, in the order of the records.

        Raises:
            BenchmarkMissingError: No directory is named, and the hub cannot be reached.
            UserError: The directory holds none of the files, or the file is damaged.
        """
        unpack = ", unpack it," if ".zip" in self.source else ""
        where = how_to_provide(self.variable, f"the directory of {names[0]}")
        advice = f"download {self.source}{unpack} and {where}"
        if folder := data_folder(self.variable):
            for name in names:
                if reading.is_there(path := Path(folder, name)):
                    return read_records(path, self.title, make, fields)
            raise UserError(f"{self.title}: {folder} holds no {names[0]}; {advice}")
        if not self.on_hub:
            raise BenchmarkMissingError(f"{self.title}: {advice}")
        try:
            hub.require(self.title, advice)
            splits = load_rows(self.title, *self.on_hub)
        except (ImportError, UserError) as e:
            reason = str(e).partition("\n")[0]
            if advice not in reason:
                reason += f"; {advice}"
            raise BenchmarkMissingError(reason) from e
        return [make(row) for split in splits.values() for row in split]

    def repository(self, name: str) -> dict[str, str]:
        """Read the Python files of a repository that the data set names.

        Args:
            name: Name of a directory below ``repositories``, or of a zip archive there without its
                suffix.

        Returns:
            Text by path, as `read_python` returns it.

        Raises:
            UserError: There is no such repository, or it holds no Python file that can be read.
        """
        if name in ("", ".", "..") or "/" in name:
            raise UserError(
                f"{self.title} names the repository {name!r}, which is not the name of a directory"
            )
        place = Path(data_folder(self.variable) or "", "repositories", name)
        for path in (place, place.with_name(f"{name}.zip")):
            if path.exists() and (files := read_python(path)):
                return files
        raise UserError(
            f"{place} (or .zip) with Python files is not there; put it there ({self.variable})"
        )


def read_records(
    path: Path,
    title: str,
    make: Callable[[Any], T],
    fields: Fields = (),
) -> list[T]:
    """Read a JSONL file of a data set, gzip or plain. Blank lines are skipped.

    Args:
        path: The file.
        title: What messages call the data set.
        make: Makes a value of a record.
        fields: The fields that a record must have, with what they must be.

    Returns:
        What `make` returns, in the order of the lines.

    Raises:
        DamagedFileError: A line is not a record of this data set, there is no record, or the file cannot be
            read.
    """
    records = []
    for number, row in reading.rows(path, blank=True):
        try:
            if fault := reading.fault_of(row, fields):
                raise ValueError(fault)
            records.append(make(row))
        except NO_RECORD as e:
            missing = isinstance(e, KeyError)
            reason = f"field {e} is missing" if missing else " ".join(str(e)[:200].split())
            why = f"it is not a record of {title} ({reason})"
            raise reading.DamagedFileError.of(path, why, number) from e
    if not records:
        raise reading.DamagedFileError.of(path, f"it contains no record of {title}")
    return records
