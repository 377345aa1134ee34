"""Test that writing a file reports anything in its place that the program did not write, and keeps it."""

from __future__ import annotations

import os

import pytest

from pkg_lib.core import store
from pkg_lib.core.types import UserError

pytestmark = pytest.mark.usefixtures("no_waiting")


def fifo(path):
    os.mkfifo(path)


def directory(path):
    path.mkdir()


def loop(path):
    path.symlink_to(path.name)


def dangling(path):
    path.symlink_to("nothing")


def identity(path):
    """Return the properties of a file that change only with the file; reading it may change its access time."""
    found = path.lstat()
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("place", ["x.json", "x.json.tmp"])
@pytest.mark.parametrize("make", [fifo, directory, loop, dangling])
def test_reports_and_keeps_what_is_not_a_regular_file(tmp_path, make, place):
    make(tmp_path / place)
    before = identity(tmp_path / place)
    with pytest.raises(UserError) as error:
        store.write_text(tmp_path / "x.json", "text")
    (message,) = error.value.args
    assert (
        f"{tmp_path / place} is " in message
        and "move it away" in message
        and "space" not in message
    )
    assert identity(tmp_path / place) == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("make", [fifo, loop, dangling, lambda path: path.write_text("text")])
def test_reports_a_file_in_place_of_a_directory(tmp_path, make):
    make(tmp_path / "site")
    with pytest.raises(UserError) as error:
        store.write_text(tmp_path / "site" / "tasks" / "x.html", "text")
    (message,) = error.value.args
    assert f"{tmp_path / 'site'} is not a directory" in message and "space" not in message


def test_a_link_to_a_file_elsewhere_is_never_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "x.tmp").symlink_to(other)
    with pytest.raises(UserError, match=r"x\.tmp is a link"):
        store.write_text(tmp_path / "x", "text")
    assert other.read_text() == "kept"
