"""The contexts of each task that the PKG paper's authors published, by Voyage and BM25.

    pkg-contexts  the union of its functions and answers, as documents like any other
    published     each task's own top context, method by method

Both contain what was retrieved for these very tasks. BM25's file contains functions: the method
that the authors call BM25 is Func-BM25 here, and BM25 over rows was not published. Of MBPP's 352
published top functions 78 do not parse (8 of 162 of HumanEval's). No published block parses by
itself, because blocks were cut out with their indentation.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pkg_lib.core.data_folders import data_folder, how_to_provide
from pkg_lib.core.reading import Kinds, is_there
from pkg_lib.core.types import Document, UnavailableError, digest
from pkg_lib.data.records import read_records

VARIABLE = "PKG_PAPER_DIR"
# method -> its file below contexts/ for HumanEval and for MBPP
FILES = {
    "VoyageEmb": ("voyage_code_relevant_context_human_eval", "voyage_code_relevant_context_mbpp"),
    "Func-BM25": ("bm25_relevant_context_humaneval", "bm25_relevant_context_mbpp"),
    "Func-PKG": ("humaneval_function_wise_relevant_context", "mbpp_function_wise_relevant_context"),
    "Block-PKG": ("humaneval_blockwise_relevant_context", "mbpp_blockwise_relevant_context"),
}
# A file below samples/MODEL/BENCHMARK/ -> method
SAMPLES = {
    "no_rag": "NoRAG",
    "bm25": "BM25",
    "voyage_emb": "VoyageEmb",
    "voyage_func": "Func-PKG",
    "voyage_block": "Block-PKG",
    "reranked": "Reranked",
}
# model -> the file of its raw answers, as in the authors' repository. Of the closed models' answers
# they published only those to VoyageEmb's prompts of MBPP before extraction.
RAW_ANSWERS = {
    "claude-3-haiku": "mbpp_results/claude-3-haiku-20240307_mbpp_1755435284/voyage_emb_results.jsonl",
    "gpt-4o": "mbpp_results/gpt-4o_mbpp_1755434590/voyage_emb_results.jsonl",
}
RAW_BENCHMARK, RAW_METHOD = "mbpp", "voyage_emb"
# The files count tasks from 0, which is task 11 for MBPP, the first of its test split.
FIRST = (("HumanEval", 0), ("MBPP", 11))
RAW_FIELDS: Kinds = {"task_id": str, "raw_output": str}
REPOSITORY = "github.com/iamshahd/ProgrammingKnowledgeGraph"
TITLE = "the authors' published contexts"


def _contexts_folder() -> Path:
    """The authors' folder contexts/; UnavailableError without it."""
    folder = data_folder(VARIABLE)
    if folder is None or not (folder / "contexts").is_dir():
        directory = "a directory with contexts/ and samples/"
        raise UnavailableError(
            f"the authors' published data: {how_to_provide(VARIABLE, directory)} "
            f"(from their replication package, {REPOSITORY})"
        )
    return folder / "contexts"


def context_id(method: str, task: str) -> str:
    """Return the id of the document that is a task's published top context.

    Args:
        method: One of FILES.
        task: The task's id.
    """
    return f"published/{method}/{task}"


def contexts() -> Iterator[Document]:
    """Yield the top context of each task for each method.

    The text is empty where the authors published none. Such a task is not measured.
    """
    for method, task, texts in ranked():
        yield Document(context_id(method, task), texts[0] if texts else "", unit="function")


def ranked() -> Iterator[tuple[str, str, list[str]]]:
    """Read all published contexts.

    Yields:
        Method, task id, and the task's contexts, best first.

    Raises:
        UnavailableError: The authors' data are not on this machine.
        DamagedFileError: A file cannot be read.
    """
    folder = _contexts_folder()
    for method, files in FILES.items():
        for (benchmark, first), name in zip(FIRST, files, strict=True):
            for number, texts in read_records(folder / f"{name}.jsonl", TITLE, _numbered):
                yield method, f"{benchmark}/{first + number}", texts


def union() -> Iterator[Document]:
    """Yield each published answer and each retrieved function once, by Voyage or BM25.

    Raises:
        UnavailableError: The authors' data are not on this machine.
        DamagedFileError: A file cannot be read.
    """
    answers: dict[str, None] = {}
    functions: dict[str, None] = {}
    for path in sorted(_contexts_folder().glob("*.jsonl")):
        if "block" in path.name:
            continue
        texts_so_far = answers if path.name.startswith("voyage_code") else functions
        for texts in read_records(path, TITLE, _texts):
            texts_so_far.update(dict.fromkeys(texts))
    for text in answers:
        yield Document(f"pkg-contexts/answer-{digest(text)[:12]}", text, kind="answer")
    for text in functions:
        yield Document(f"pkg-contexts/function-{digest(text)[:12]}", text, unit="function")


def raw_answers(model: str) -> dict[str, str]:
    """Read the answers of a closed model before extraction, to VoyageEmb's prompts of MBPP.

    Args:
        model: One of RAW_ANSWERS.

    Returns:
        Answer by task id.

    Raises:
        UnavailableError: The file is not on this machine.
        DamagedFileError: The file cannot be read.
    """
    folder = data_folder(VARIABLE)
    name = RAW_ANSWERS[model]
    if folder is None or not is_there(folder / name):
        where = folder or f"the directory in {VARIABLE}"
        raise UnavailableError(
            f"raw answers of {model}: copy {name} from {REPOSITORY} to the same path below {where}"
        )
    return dict(read_records(folder / name, "the authors' raw answers", _raw_answer, RAW_FIELDS))


def _raw_answer(row: dict[str, Any]) -> tuple[str, str]:
    return row["task_id"], row["raw_output"]


def _numbered(row: dict[str, Any]) -> tuple[int, list[str]]:
    """The number of a row's task, and its texts."""
    number = str(row["task_id"]).rpartition("/")[2]
    return int(number), _texts(row)


def _texts(row: dict[str, Any]) -> list[str]:
    """A row's answer, or its functions (texts or pairs of similarity and text), best first."""
    value = row.get("problem", row.get("content")) or []
    if isinstance(value, str):
        return [value]
    texts = [item if isinstance(item, str) else item[1] for item in value]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a context is not text")
    return texts
