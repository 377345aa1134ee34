"""EVOR-BENCH's Python tasks (Section 2.4, Table 1) in the authors' own form.

They are read from PKG_EVOR_DIR or the hub: TASK/docs/*.md, and in each TASK/examples/q*/ the files

    example.json            with "problem_description"
    code_context.txt        a program with one [insert], where the solution goes
    input/inputN.pkl        an input of case N
    ans/ansN.pkl            its answer
    test_code.py            defines test(result, answer); without it both must be equal

A program reads an input and writes result/result_N.pkl. Pickles are sent to the sandbox as text and
are unpickled there alone, where a hostile one only fails its task. The form has neither solutions nor
oracle documents.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from pkg_lib.core import hub
from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.hub_data import data_revision
from pkg_lib.core.reading import contents, read_object, read_text
from pkg_lib.core.types import BenchmarkMissingError, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.papers.evor import new_science
from pkg_lib.papers.evor.evor_benchmark import MAX_INPUTS, EvorBenchmark
from pkg_lib.papers.evor.templates import PROGRAMS

DATA = DataSet("EVOR-BENCH", "PKG_EVOR_DIR", "xlangai/EVOR_data", ("xlangai/EVOR_data",))
TEST_OF_EQUALITY = "def test(result, answer):\n    return result == answer\n"
MEMORY_MB = 4096
UNREACHABLE = (ImportError, UserError, OSError, ValueError)  # raised by a hub without the data
HEADING = re.compile(r"^(?=##)", re.M)
ASSIGNMENT = re.compile(r"^\s*(\w+ = .+)", re.M)
NO_CASES = "one [insert] in code_context.txt and an input/input1.pkl are needed"


@dataclass(frozen=True, slots=True)
class CaseTests:
    """Hidden tests of an EVOR-BENCH task: inputs with their answers.

    Attributes:
        context: Program with one [insert], where the solution goes.
        judge: Program that defines ``test(result, answer)``.
        cases: Number, pickled input and pickled answer of each case, both in hexadecimal.
    """

    context: str
    judge: str
    cases: tuple[tuple[str, str, str], ...]

    @property
    def text(self) -> str:
        """All three as JSON, which identifies them in stored digests."""
        return json.dumps([self.context, self.judge, self.cases])


class EvorBench(EvorBenchmark):
    """One library of EVOR-BENCH.

    A program has no entry point, so the test inputs of a draft are assignments.

    Args:
        folder: The folder TASK of the library.
        subject: The library, as prompts name it.
    """

    home = DATA.home
    controls: Mapping[str, bool] = {"return None": False}  # the form has no solutions
    seconds = 60.0  # the authors' limit

    def __init__(self, folder: str, subject: str) -> None:
        self.folder = folder
        self.subject = subject
        self.title = f"EVOR-BENCH {folder}"
        self.name = f"evor-{folder.lower()}"
        self.prompts = self.name
        self.asks_hub = DATA.asks_hub

    def directory(self) -> Path:
        """Return the directory of the library, from the user or the hub.

        Raises:
            BenchmarkMissingError: Neither is available.
        """
        needed = f"a directory that holds {self.folder}/examples (of {DATA.source})"
        advice = f"set {DATA.variable} to {needed}"
        try:
            root = data_folder(DATA.variable) or self._downloaded(advice)
        except UNREACHABLE as e:
            raise BenchmarkMissingError(f"{self.title} is not available ({e}): {advice}") from e
        directory = Path(root, self.folder)
        examples = directory / "examples"
        if not examples.is_dir():
            raise BenchmarkMissingError(f"{root} holds no {self.folder}: {advice}")
        return directory

    def _downloaded(self, advice: str) -> str:
        """The directory with the hub's files of the library."""
        from huggingface_hub import snapshot_download

        hub.require(self.title, advice)
        return snapshot_download(
            DATA.source,
            repo_type="dataset",
            revision=data_revision(DATA.source, self.title),
            allow_patterns=f"{self.folder}/*",
        )

    def tasks(self) -> list[Task]:
        """Return the tasks by number.

        Raises:
            BenchmarkMissingError: The directory is not available.
            UserError: An example is damaged.
        """
        examples = self.directory() / "examples"
        names = [folder.name for folder in examples.glob("q*/")]
        names.sort(key=lambda name: (len(name), name))  # q2 comes before q10
        return [self._task(examples / name) for name in names]

    def _task(self, folder: Path) -> Task:
        try:
            about = read_object(folder / "example.json", {"problem_description": str}, advice="")
            hidden = _read_tests(folder)
        except (UserError, ValueError) as e:
            raise UserError(f"{folder} is no example of {self.title}: {e}") from e
        return Task(
            id=f"{self.folder}/{folder.name}",
            benchmark=self.name,
            prompt=about["problem_description"],
            entry_point="",
            hidden_tests=hidden,
        )

    def documents(self) -> Mapping[str, str]:
        """Return the sections of the documentation by file and number."""
        pages = self.directory() / "docs"
        documents = {}
        for page in sorted(pages.glob("*.md")):
            sections = HEADING.split(read_text(page))
            for number, section in enumerate(sections):
                text = section.strip()
                if text:
                    documents[f"{page.name}#{number}"] = text
        return documents

    def needed(self, task: Task) -> frozenset[str]:
        """Return no document: the form has no oracle documentation.

        Args:
            task: A task of this benchmark.
        """
        return frozenset()

    def limits(self, task: Task) -> Limits:
        """Return the limits of a test process, which may import every installed package.

        Args:
            task: A task of this benchmark.
        """
        return Limits(self.seconds, MEMORY_MB, "all")

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        """Return one test program per case.

        Args:
            task: A task of this benchmark.
            protocol: One of PROTOCOLS.
        """
        hidden = task.tests_as(CaseTests)
        programs = []
        for case in hidden.cases:
            program = PROGRAMS["case"].format(
                *case,
                context=hidden.context,
                judge=hidden.judge,
            )
            programs.append(program)
        return tuple(programs)

    def job(
        self,
        task: Task,
        solution: str,
        protocol: str = "pkg-paper",
    ) -> Job | Outcome:
        """Return the job that tests a solution, which the tests get as text.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.
            protocol: One of PROTOCOLS.
        """
        job = super().job(task, solution, protocol)
        if isinstance(job, Outcome):
            return job
        return replace(job, solution=f"{self.preparation()}_solution = {solution!r}\n")

    def question(self, task: Task) -> str:
        """Return the request for the code that is missing from the program.

        Args:
            task: The problem n.
        """
        return f"{task.prompt}\nAnswer with the missing code alone, in one code block."

    def input_calls(self, raw: str, task: Task) -> tuple[str, ...]:
        """Read assignments as the test inputs.

        Args:
            raw: The model's answer to the request for test inputs.
            task: The problem n.

        Returns:
            At most MAX_INPUTS assignments.
        """
        return tuple(ASSIGNMENT.findall(raw))[:MAX_INPUTS]

    def draft_job(
        self,
        task: Task,
        solution: str,
        calls: tuple[str, ...],
    ) -> Job:
        """Return the job that executes a draft after the assignments.

        Args:
            task: The problem n.
            solution: The draft p.
            calls: The assignments.
        """
        program = "\n".join([*calls, solution])
        return super().draft_job(task, program, ())


class ScipyM(EvorBench):
    """SciPy-M in the authors' own form. Its programs import the authors' library newScience."""

    def preparation(self) -> str:
        """Return the program that makes newScience importable in the sandbox.

        Returns:
            The program with the library of the user's directory. It is "" if no directory is named, but the
            library is installed as the authors install it.

        Raises:
            BenchmarkMissingError: The library is neither in a directory of the user's nor installed.
            UserError: It cannot be read whole.
        """
        if data_folder(new_science.VARIABLE) is None and find_spec(new_science.NAME):
            return ""
        return self._preparation

    @cached_property
    def _preparation(self) -> str:
        return new_science.importing_program(new_science.read_library())

    def tasks(self) -> list[Task]:
        """Return the tasks by number.

        Raises:
            BenchmarkMissingError: The tasks or the library are not available.
            UserError: An example or the library is damaged.
        """
        tasks = super().tasks()
        self.preparation()  # raises if the library is not available: every task would fail
        return tasks


def _read_tests(folder: Path) -> CaseTests:
    """Read the hidden tests of an example."""
    context = read_text(folder / "code_context.txt", "")
    inputs = folder / "input"
    answers = folder / "ans"
    cases = []
    names = [path.stem for path in inputs.glob("input*.pkl")]
    for name in sorted(names):
        number = name.removeprefix("input")
        given = contents(inputs / f"input{number}.pkl", "")
        answer = contents(answers / f"ans{number}.pkl", "")
        cases.append((number, given.hex(), answer.hex()))
    if context.count("[insert]") != 1 or not cases:
        raise ValueError(NO_CASES)
    judge = TEST_OF_EQUALITY
    path = folder / "test_code.py"
    if path.is_file():
        judge = read_text(path, "")
    return CaseTests(context, judge, tuple(cases))


BENCHMARKS.register(ScipyM("ScipyM", "the library ScipyM, a renamed SciPy"))
BENCHMARKS.register(EvorBench("TensorflowM", "the library TensorflowM, a renamed TensorFlow"))
