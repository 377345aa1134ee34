"""RepoEval executed: the functions that the tests of their repositories judge.

RepoEval names no tests. The archives of REPOSITORIES hold tests whose libraries are installed here, and
`cast prepare repoeval` finds those that judge a function:

    results/repo_tasks/repoeval_tests.jsonl       id, tests, and digest of the prompt of each task
    results/repo_tasks/repoeval_tests.meta.json   how many functions each reason left out

The tests of other repositories need libraries such as haiku, or there are none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from pkg_lib.core.store import read_rows, results_path
from pkg_lib.core.types import BenchmarkMissingError, Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.functions import DATA, NamedTests, RepoTask, load_repoeval
from pkg_lib.data.packages import Package, is_test_file
from pkg_lib.papers.cast.function_bodies import (
    CONTROLS,
    REPOEVAL_METHODS,
    REPOEVAL_PROMPTS,
    TestedBodies,
)

NAME = "repoeval-tests"
FILE = "repoeval_tests.jsonl"
FIELDS = ("id", "tests", "prompt_sha256")
CHOOSE = "run `pkg-lib cast prepare repoeval`"


@dataclass(frozen=True, slots=True)
class RepositoryWithTests:
    """A repository of RepoEval whose archive holds usable tests.

    Attributes:
        name: Its name in RepoEval.
        code: The folder of its code.
        libraries: Installed packages that its tests need.
    """

    name: str
    code: str
    libraries: tuple[str, ...]


REPOSITORIES = (
    RepositoryWithTests("maxhumber_redframes", "redframes", ("pandas",)),
    RepositoryWithTests("deepmind_tracr", "tracr", ("numpy", "absl", "typing_extensions")),
)


def package_of(repository: str) -> Package:
    """Describe a repository as a package with tests.

    Args:
        repository: The name of one of REPOSITORIES.

    Returns:
        The package. Its files are those of RepoEval's archive.

    Raises:
        BenchmarkMissingError: The archive is not available.
    """
    (tested,) = (tested for tested in REPOSITORIES if tested.name == repository)
    tests = tuple(path for path in DATA.repository(repository) if is_test_file(path))
    return Package(
        name=repository,
        version="",
        archive="",
        sha256="",
        sources=(tested.code,),
        tests=tests,
        licence="",
        libraries=tested.libraries,
    )


class RepoEvalTests(TestedBodies):
    """The functions of RepoEval that the tests of their repositories judge (Section 3.1)."""

    name = NAME
    title = "RepoEval, function level, by tests"
    prompts = REPOEVAL_PROMPTS
    home = f"{DATA.home}; names of tests in results/repo_tasks"
    methods = REPOEVAL_METHODS
    controls = MappingProxyType(CONTROLS)

    def tasks(self) -> list[Task]:
        """Load the tasks.

        Returns:
            RepoEval's tasks that have tests, in RepoEval's order.

        Raises:
            BenchmarkMissingError: RepoEval is not available, or no tests are stored.
            UserError: A stored task is not in RepoEval.
        """
        path = results_path() / "repo_tasks" / FILE
        if not path.exists():
            raise BenchmarkMissingError(f"no tests of RepoEval's repositories are stored: {CHOOSE}")
        for repository in REPOSITORIES:
            for library in repository.libraries:
                if find_spec(library) is None:
                    raise BenchmarkMissingError(
                        f"the tests of {repository.name} need {library}: install requirements.txt"
                    )
        return list(_tasks_with_tests(list(read_rows(path, FIELDS))))

    def files(self, repository: str) -> dict[str, str]:
        """Return the files of a repository.

        Args:
            repository: Name of the repository.

        Returns:
            Text of each file by path.
        """
        return DATA.repository(repository)

    def package(self, task: RepoTask) -> Package:
        """Return one of REPOSITORIES as a package.

        Args:
            task: The function to complete.
        """
        return package_of(task.repository)


def _tasks_with_tests(rows: list[dict[str, Any]]) -> Iterator[RepoTask]:
    """Yield the tasks of stored rows with their tests."""
    row_of = {row["id"]: row for row in rows}
    for task in load_repoeval():
        row = row_of.pop(task.id, None)
        if row and digest(task.prompt) == row["prompt_sha256"]:
            yield replace(task, benchmark=NAME, hidden_tests=NamedTests(tuple(row["tests"])))
        elif row:
            raise UserError(f"the prompt of {task.id} is not the one that was stored: {CHOOSE}")
    if row_of:
        raise UserError(f"RepoEval has no task {min(row_of)}: {CHOOSE}")


BENCHMARKS.register(RepoEvalTests())
