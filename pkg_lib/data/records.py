"""Other people's data sets, read where they are and never committed: records, and trees of source files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pkg_lib.core import hub, reading
from pkg_lib.core.data_folders import data_folder, how_to_provide
from pkg_lib.core.hub_data import load_rows
from pkg_lib.core.reading import Fields
from pkg_lib.core.source_tree import read_python
from pkg_lib.core.types import BenchmarkMissing, UserError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DataSet:
    """Files below the directory that `variable` names; where it names none, all splits of `on_hub`, if any.

    `on_hub` is a repository of the Hugging Face hub and a configuration; `source` says where the files are.
    """

    title: str
    variable: str
    source: str
    on_hub: tuple[str, ...] = ()

    @property
    def home(self) -> str:
        return f"directory in {self.variable}" + (
            f", else hub: {self.on_hub[0]}" if self.on_hub else ""
        )

    @property
    def asks_hub(self) -> bool:
        return bool(self.on_hub) and data_folder(self.variable) is None

    def records(
        self, names: Sequence[str], make: Callable[[Any], T], fields: Fields = ()
    ) -> list[T]:
        """Read the records of the first file that is there, or else of the hub.

        Args:
            names: The files, below the directory that the user names.
            make: Makes a value of a record.
            fields: The fields that a record must have, with what they must be.

        Returns:
            What `make` returns, in the order of the records.

        Raises:
            BenchmarkMissing: No directory is named, and the hub cannot be reached.
            UserError: The directory holds none of the files, or the file is damaged.
        """
        unpack = ", unpack it," if ".zip" in self.source else ""
        where = how_to_provide(self.variable, f"the directory of {names[0]}")
        advice = f"download {self.source}{unpack} and {where}"
        if folder := data_folder(self.variable):
            if path := next((p for n in names if reading.is_there(p := Path(folder, n))), None):
                return read_records(path, self.title, make, fields)
            raise UserError(f"{self.title}: {folder} holds no {names[0]}; {advice}")
        if not self.on_hub:
            raise BenchmarkMissing(f"{self.title}: {advice}")
        try:
            hub.require(self.title, advice)
            splits = load_rows(self.title, *self.on_hub)
        except (ImportError, UserError) as e:
            reason = str(e).partition("\n")[0]
            raise BenchmarkMissing(f"{self.title} is not available ({reason}): {advice}") from e
        return [make(row) for split in splits.values() for row in split]

    def repository(self, name: str) -> dict[str, str]:
        """Read the Python files of a repository that the data set names.

        Args:
            name: Name of a directory below ``repositories``, or of a zip archive there without its suffix.

        Returns:
            Path -> text, as `read_python` returns it.

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


def read_records(path: Path, title: str, make: Callable[[Any], T], fields: Fields = ()) -> list[T]:
    """Read a JSONL file of a data set, gzip or plain; blank lines are passed over.

    Args:
        path: The file.
        title: What the data set is called in messages.
        make: Makes a value of a record.
        fields: The fields that a record must have, with what they must be.

    Returns:
        What `make` returns, in the order of the lines.

    Raises:
        Damaged: A line is no record of this data set, there is no line, or the file cannot be read.
    """
    records = []
    for number, row in reading.rows(path, blank=True):
        try:
            if why := reading.fault_of(row, fields):
                raise ValueError(why)
            records.append(make(row))
        except (
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            SyntaxError,
            RecursionError,
        ) as e:
            reason = (
                f"field {e} is missing"
                if isinstance(e, KeyError)
                else " ".join(str(e)[:200].split())
            )
            why = f"it is no record of {title} ({reason})"
            raise reading.Damaged.of(path, why, number) from e
    if not records:
        raise reading.Damaged.of(path, f"it holds no record of {title}")
    return records
