"""EVOR-BENCH's Python tasks in the authors' own form, from PKG_EVOR_DIR or the hub.

TASK/docs/*.md, and in TASK/examples/q*/ example.json (`problem_description`), code_context.txt with one
[insert], input/inputN.pkl, ans/ansN.pkl, test_code.py (`test(result, answer)`; without it: equal). A program
reads an input and writes result/result_N.pkl. Pickles go into a job as text and are unpickled in the sandbox
alone, where what a hostile one does fails its task. The form names neither solutions nor oracle documents.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pkg_lib.core import hub
from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.hub_data import data_revision
from pkg_lib.core.reading import contents, read_object, read_text
from pkg_lib.core.types import BenchmarkMissing, Outcome, Task, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.records import DataSet
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.papers.evor.renaming import PROGRAMS
from pkg_lib.papers.evor.unfamiliar import Unfamiliar

DATA = DataSet("EVOR-BENCH", "PKG_EVOR_DIR", "xlangai/EVOR_data", ("xlangai/EVOR_data",))
EQUAL = "def test(result, answer):\n    return result == answer\n"


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


class EvorBench(Unfamiliar):
    """One of its libraries; a draft's test inputs are assignments, since a program has no entry point."""

    home = DATA.home
    controls: Mapping[str, bool] = {"return None": False}  # no solutions are in the form
    seconds = 60.0  # the authors' limit

    def __init__(self, folder: str, subject: str) -> None:
        self.folder, self.subject, self.title = folder, subject, f"EVOR-BENCH {folder}"
        self.name = self.prompts = f"evor-{folder.lower()}"
        self.asks_hub = DATA.asks_hub

    def place(self) -> Path:
        """The directory of the task. BenchmarkMissing where neither the user's nor the hub's is available."""
        advice = f"set {DATA.variable} to a directory that holds {self.folder}/examples (of {DATA.source})"
        try:
            if not (root := data_folder(DATA.variable)):
                from huggingface_hub import snapshot_download

                hub.require(self.title, advice)
                commit = data_revision(DATA.source, self.title)
                wanted = {
                    "repo_type": "dataset",
                    "allow_patterns": f"{self.folder}/*",
                    "revision": commit,
                }
                root = snapshot_download(DATA.source, **wanted)
        except (ImportError, UserError, OSError, ValueError) as e:
            raise BenchmarkMissing(f"{self.title} is not available ({e}): {advice}") from e
        if not Path(root, self.folder, "examples").is_dir():
            raise BenchmarkMissing(f"{root} holds no {self.folder}: {advice}")
        return Path(root, self.folder)

    def tasks(self) -> list[Task]:
        folders = (self.place() / "examples").glob("q*/")
        return [self._task(f) for f in sorted(folders, key=lambda f: (len(f.name), f.name))]

    def _task(self, folder: Path) -> Task:
        try:
            about = read_object(folder / "example.json", {"problem_description": str}, advice="")
            prompt = about["problem_description"]
            context, judge = read_text(folder / "code_context.txt", ""), folder / "test_code.py"
            numbers = sorted(p.stem.removeprefix("input") for p in folder.glob("input/input*.pkl"))
            read = lambda kind, n: contents(folder / kind / f"{kind}{n}.pkl", "").hex()  # noqa: E731
            cases = [(n, read("input", n), read("ans", n)) for n in numbers]
            if context.count("[insert]") != 1 or not cases:
                raise ValueError(
                    "one [insert] in code_context.txt and an input/input1.pkl are needed"
                )
            judging = read_text(judge, "") if judge.is_file() else EQUAL
            hidden = CaseTests(context, judging, tuple(cases))
            return Task(f"{self.folder}/{folder.name}", self.name, prompt, "", hidden)
        except (UserError, ValueError) as e:
            raise UserError(f"{folder} is no example of {self.title}: {e}") from e

    def documents(self) -> Mapping[str, str]:
        pages = sorted((self.place() / "docs").glob("*.md"))
        cut = {p.name: re.split(r"^(?=##)", read_text(p), flags=re.M) for p in pages}
        return {
            f"{n}#{i}": t.strip()
            for n, texts in cut.items()
            for i, t in enumerate(texts)
            if t.strip()
        }

    def needed(self, task: Task) -> frozenset[str]:
        return frozenset()

    def limits(self, task: Task) -> Limits:
        return Limits(self.seconds, 4096, "all")

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        hidden = task.tests_as(CaseTests)
        program, about = PROGRAMS["case"], {"context": hidden.context, "judge": hidden.judge}
        return tuple(program.format(*case, **about) for case in hidden.cases)

    def job(self, task: Task, solution: str, protocol: str = "pkg-paper") -> Job | Outcome:
        return replace(
            super().job(task, solution, protocol), solution=f"_solution = {solution!r}\n"
        )

    def asked(self, task: Task) -> str:
        return f"{task.prompt}\nAnswer with the missing code alone, in one code block."

    def calls(self, raw: str, task: Task) -> tuple[str, ...]:
        return tuple(re.findall(r"^\s*(\w+ = .+)", raw, re.M))[:5]

    def look(self, task: Task, solution: str, calls: tuple[str, ...]) -> Job:
        return super().look(task, "\n".join((*calls, solution)), ())


BENCHMARKS.register(EvorBench("ScipyM", "the library ScipyM, a renamed SciPy"))
BENCHMARKS.register(EvorBench("TensorflowM", "the library TensorflowM, a renamed TensorFlow"))
