"""The base class of EVOR's benchmarks (Section 2.4): tasks on a library or language no model knows.

Beside tasks and hidden tests, EVOR needs documentation and a way to execute a draft program that
sees no hidden test. A benchmark knows nothing of rounds, queries or the knowledge base.
"""

import ast
import builtins
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from pkg_lib.core.data_folders import data_folder
from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.core.source_tree import ends_with, find, read_each
from pkg_lib.core.types import Task, UnavailableError
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import DECODING, Benchmark
from pkg_lib.execution.sandbox import Job
from pkg_lib.generation.extraction import blocks
from pkg_lib.generation.generator import Decoding
from pkg_lib.papers.evor.execution_feedback import draft_test
from pkg_lib.papers.evor.renaming import first_paragraph
from pkg_lib.papers.evor.templates import PROGRAMS

WEB_FOLDER = "PKG_EVOR_WEB_DIR"  # a directory with pages (.md, .txt) in a folder per benchmark
MAX_INPUTS = 5  # generated inputs of a task that are used (Appendix C)
DECODING_SLOTS = 16  # prompts that are decoded together
WORD_OF_SOLUTION = re.compile(r"[^\s()\[\]{}.,;:'\"=]+")
IMPORTED_NAME = re.compile(r"^(?:import|from)\b.*?(\w+)$", re.M)


def document_head(document: str) -> str:
    """Return a document's signature and the first paragraph below it.

    Args:
        document: A document whose first line is the signature.
    """
    signature, _, rest = document.partition("\n")
    return f"{signature}\n    {first_paragraph(rest)}"


def last_name(dotted: str) -> str:
    """Return the last part of a dotted name.

    Args:
        dotted: Such as "pandas.DataFrame.drop".
    """
    return dotted.rpartition(".")[2]


def first_block_closed(text: str) -> bool:
    """Tell whether a model's answer holds a code block that is closed and not empty.

    Args:
        text: The answer up to now.
    """
    return any(block.closed and block.code.strip() for block in blocks(text))


class EvorBenchmark(Benchmark):
    """Tasks on a library or language that the model does not know (Section 2.4).

    Attributes:
        subject: The library or language, as prompts name it.
        language: The language of the fence around a program.
        request: What a prompt says before the task.
        budgets: Tokens of a context, of its snippets and feedback, and of an answer (Appendix F).
    """

    corpus = corpora.LIBRARY
    in_tokens = True
    selects = False
    methods = (
        "NoRAG",
        "DocPrompting",
        "RK",
        "Oracle",
        "EVOR@0",
        "EVOR@1",
        "EVOR@2",
        "EVOR@3",
        "EVOR@4",
    )
    budgets: Mapping[str, int] = MappingProxyType(
        {
            "context": 1000,
            "snippets": 300,
            "feedback": 150,
            "answer": 400,
        }
    )
    subject: str
    language = "python"
    request = "Solve this task. Answer with the complete program, in one code block."

    # Documentation, one of the sources of the knowledge base (Section 2.2.1)

    @abstractmethod
    def documents(self) -> Mapping[str, str]:
        """Return the documentation.

        Returns:
            Name -> text of each function, method or section, in a fixed order.
        """

    @abstractmethod
    def needed(self, task: Task) -> frozenset[str]:
        """Return the oracle documentation of a task (Section 2.4).

        Args:
            task: A task of this benchmark.

        Returns:
            The names of the documents that the reference solution needs.
        """

    def alternatives(self, task: Task) -> list[frozenset[str]]:
        """Return the needed documents as sets of which one document suffices.

        Args:
            task: A task of this benchmark.
        """
        return [frozenset((name,)) for name in sorted(self.needed(task))]

    def oracle(self, task: Task) -> str:
        """Return the oracle documentation as a prompt shows it.

        Args:
            task: A task of this benchmark.
        """
        documents = self.documents()
        heads = []
        for names in self.alternatives(task):
            document = documents[min(names)]
            heads.append(document_head(document))
        return "\n".join(heads)

    def recall(self, task: Task, names: Iterable[str]) -> float | None:
        """Return the share of the needed documents that was found.

        Args:
            task: A task of this benchmark.
            names: The names of the documents that were found.

        Returns:
            A share from 0 to 1; None if no document is known to be needed.
        """
        wanted = self.alternatives(task)
        if not wanted:
            return None
        known = set(names)
        found = sum(not known.isdisjoint(alternatives) for alternatives in wanted)
        return found / len(wanted)

    def measures(self, task: Task, solution: str) -> dict[str, float]:
        """Return the share of the needed functions that a solution names.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.

        Returns:
            The share as "used"; empty if no document is known to be needed.
        """
        words = set(WORD_OF_SOLUTION.findall(solution))
        used = []
        for alternatives in self.alternatives(task):
            used += [name for name in alternatives if last_name(name) in words]
        share = self.recall(task, used)
        return {} if share is None else {"used": share}

    def examples(self) -> Iterable[str]:
        """Return the documentation's example programs.

        Those that run are the first code snippets of the knowledge base (Appendix D).
        """
        return ()

    def pages(self) -> list[str]:
        """Return the pages of the source "web" (Section 2.2.1).

        Raises:
            UnavailableError: No directory with pages is given; nothing is searched in the web.
        """
        root = data_folder(WEB_FOLDER)
        folder = Path(root or "", self.name)
        if not root or not folder.is_dir():
            advice = f"set {WEB_FOLDER} to a directory with a folder {self.name}"
            raise UnavailableError(f"no web pages for {self.name}: {advice}")
        tree = find(folder, ends_with(".md", ".txt"))
        pages = [data.decode("utf-8-sig", "replace") for _, data in read_each(tree)]
        tree.skipped.warn(f"web pages for {self.name}")
        return pages

    # Prompts

    def decoding(self, style: str) -> Decoding:
        """Return how a model decodes: it stops after its first code block.

        Args:
            style: The model's prompt style.
        """
        parameters = dict(DECODING)
        parameters["max_new_tokens"] = self.budgets["answer"]
        parameters["stop"] = "first block closed"
        parameters["style"] = style
        return Decoding(parameters, first_block_closed, DECODING_SLOTS)

    def fenced(self, program: str) -> str:
        """Return a program as a code block of the benchmark's language.

        Args:
            program: Any program.
        """
        return f"```{self.language}\n{program.strip()}\n```"

    def prompt(
        self,
        task: Task,
        context: str,
        style: str,
        measure: Callable[[str], int] = len,
    ) -> str:
        """Return the prompt of M(n, K_r), line 10 of Algorithm 1.

        Args:
            task: The problem n.
            context: The retrieved knowledge K_r; "" for none.
            style: The model's prompt style, which changes nothing here.
            measure: Counts the tokens of a text; not needed here.
        """
        introduction = f"You write {self.language} with {self.subject}."
        separated = f"\n\n{context}\n\n" if context else " "
        return introduction + separated + self.question(task)

    def question(self, task: Task) -> str:
        """Return the request to solve the task, the end of each prompt.

        Args:
            task: The problem n.
        """
        return f"{self.request}\n{self.fenced(task.prompt)}"

    # Programs, and the execution of drafts

    def program(self, task: Task, solution: str) -> str:
        """Return the program that runs before the tests.

        Args:
            task: A task of this benchmark.
            solution: The extracted solution.

        Returns:
            The solution, which is a whole program.
        """
        return solution

    def preparation(self) -> str:
        """Return the program that runs in the sandbox before any other one.

        Returns:
            By default "". A benchmark whose library is not installed makes it importable here.
        """
        return ""

    def beginning(self, task: Task) -> str:
        """Return the lines of a task's program that run before its first part (subgoals.py).

        Args:
            task: A task of this benchmark.

        Returns:
            By default "", for tasks that give no lines or whose lines `program` adds.
        """
        return ""

    def input_calls(self, raw: str, task: Task) -> tuple[str, ...]:
        """Read the test inputs I from the answer of M_t (line 19 of Algorithm 1; Appendix C).

        An answer that was cut off counts up to there. A call that needs a variable of the answer is
        left out.

        Args:
            raw: The model's answer to the request for test inputs.
            task: The problem n.

        Returns:
            At most MAX_INPUTS calls of the task's function.
        """
        known = {
            task.entry_point,
            *dir(builtins),
            *IMPORTED_NAME.findall(task.prompt),
        }
        found: dict[str, None] = {}
        for call in _calls_outside_functions(_longest_program(raw)):
            if not isinstance(call.func, ast.Name) or call.func.id != task.entry_point:
                continue
            names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
            if names <= known:
                found[ast.unparse(call)] = None
        return tuple(found)[:MAX_INPUTS]

    def draft_job(
        self,
        task: Task,
        solution: str,
        calls: tuple[str, ...],
    ) -> Job:
        """Return the job E(p, I) that executes a draft (line 12 of Algorithm 1).

        The task's hidden tests are no part of it.

        Args:
            task: The problem n.
            solution: The draft p.
            calls: The generated inputs I.
        """
        return self._executing(task, self.program(task, solution), calls)

    def script_job(self, task: Task, script: str) -> Job:
        """Return the job that executes a script of sample usage (Appendix D).

        Args:
            task: Any task of this benchmark. A job needs one, although a script belongs to none. No part of
                the task's program runs before the script.
            script: The script.
        """
        return self._executing(task, script, ())

    def _executing(self, task: Task, program: str, calls: tuple[str, ...]) -> Job:
        test = draft_test(program, self.run_of_draft(program, calls))
        return Job(
            id=task.id,
            solution=self.preparation(),
            tests=(test,),
            entry_point="",
            seconds=self.seconds,
        )

    def run_of_draft(self, program: str, calls: tuple[str, ...]) -> str:
        """Return a program that runs a draft, and calls after it.

        Args:
            program: The draft p.
            calls: The generated inputs I.
        """
        return PROGRAMS["run"].format(program=program, calls=calls)


def _longest_program(raw: str) -> ast.Module:
    """Parse the code of an answer, without the lines at its end that make it unreadable."""
    code = "\n".join(block.code for block in blocks(raw))
    lines = code.splitlines() or raw.splitlines()
    for length in range(len(lines), 0, -1):
        tree = parsed_or_none("\n".join(lines[:length]))
        if tree is not None:
            return tree
    return ast.Module([], [])


def _calls_outside_functions(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield every call of a program that is in no function and no class."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                yield node
