"""What the rule of extraction changes in the closed models' published answers.

The authors published raw answers only to VoyageEmb's prompts of MBPP. Every rule of extraction is
applied to them, and every solution is judged like the published samples.

    results/replay/MODEL/extractions/mbpp/RULE.jsonl.gz    the verdicts by one rule
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from pkg_lib.analysis.cells import DIFFERENCE_COLUMNS, difference_cells
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import paired_score
from pkg_lib.analysis.tables import percent
from pkg_lib.core.store import ROWS, read_rows, slug
from pkg_lib.core.types import Outcome, Task
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.published import RAW_ANSWERS, RAW_BENCHMARK, RAW_METHOD, raw_answers
from pkg_lib.evaluation.results import passes
from pkg_lib.generation.authors_extraction import AUTHORS_RULES, FIRST_BLOCK
from pkg_lib.papers.pkg.prompt_effects import EXTRACTION_LABELS, EXTRACTIONS
from pkg_lib.papers.pkg.replay import STORED, STORED_TOO, Progress, judge_samples, read_samples

FOLDER = "extractions"
FIELDS = STORED | {"empty": bool, "as_published": bool}


def has_raw_answers(model: str) -> bool:
    """Tell whether the authors published answers of a model before extraction.

    Args:
        model: Name of a folder of samples, such as "gpt-4o".

    Returns:
        Whether `judge_extractions` can be used for the model.
    """
    return model in RAW_ANSWERS


def judge_extractions(
    samples: Path,
    results: Path,
    protocol: str = "pkg-paper",
    progress: Progress = lambda name, done: None,
) -> None:
    """Apply every rule of extraction to the raw answers of a closed model, and judge the solutions.

    Args:
        samples: The model's folder of published samples, such as samples/gpt-4o.
        results: The folder of its replayed samples.
        protocol: How solutions are judged, one of PROTOCOLS.
        progress: Is called with the rule and the number of executed solutions.

    Raises:
        UnavailableError: The raw answers or the benchmark are not on this machine.
        DamagedFileError: A file cannot be read.
    """
    answers = raw_answers(samples.name)
    tasks = load_benchmark(RAW_BENCHMARK)
    path = samples / RAW_BENCHMARK / f"{RAW_METHOD}.jsonl"
    published, _ = read_samples(path, tasks)
    first = published[published["sample"] == 0]
    published = first.set_index("task_id")
    answered = [task for task in tasks if task.id in answers]
    for rule in EXTRACTIONS:
        rows = []
        for task in answered:
            solution = _extract(rule, task, answers[task.id])
            as_published = str(published.at[task.id, "completion"] or "").strip()
            row = {
                "task_id": task.id,
                "sample": 0,
                "completion": solution,
                "published": published.at[task.id, "published"],
                "empty": not solution.strip(),
                # White space around a solution changes nothing, and the rules differ in it.
                "as_published": solution.strip() == as_published,
            }
            rows.append(row)
        target = results / FOLDER / RAW_BENCHMARK / f"{slug(rule)}{ROWS}"
        report: Callable[[int], None] = partial(progress, rule)
        solutions = pd.DataFrame(rows, dtype=object)
        judge_samples(target, solutions, tasks, protocol, report)


def _extract(rule: str, task: Task, answer: str) -> str:
    """The solution in an answer by one of EXTRACTIONS."""
    if rule in AUTHORS_RULES:
        return AUTHORS_RULES[rule](answer)
    return BENCHMARKS[RAW_BENCHMARK].solution(task, answer)


def closed_extractions(results: Path) -> pd.DataFrame:
    """Read the stored verdicts on the closed models' raw answers by every rule.

    Args:
        results: The results directory.

    Returns:
        One row per answer and rule: ``model``, ``extraction``, ``task``, ``passed`` and
        ``published`` (boolean; <NA> if not measured), ``empty`` and ``as_published`` (whether the
        solution equals the published one, apart from white space around it). No rows if nothing
        is stored.
    """
    rows: list[dict[str, object]] = []
    for model in RAW_ANSWERS:
        folder = results / "replay" / slug(model) / FOLDER / RAW_BENCHMARK
        for rule in EXTRACTIONS:
            path = folder / f"{slug(rule)}{ROWS}"
            if not path.exists():
                continue
            for stored in read_rows(path, FIELDS, STORED_TOO):
                row = {
                    "model": model,
                    "extraction": rule,
                    "task": stored["task_id"],
                    "passed": passes(Outcome.of(stored)),
                    "published": stored["published"],
                    "empty": stored["empty"],
                    "as_published": stored["as_published"],
                }
                rows.append(row)
    columns = ["model", "extraction", "task", "passed", "published", "empty", "as_published"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype(dict.fromkeys(columns[3:], "boolean"))


def stored_table(results: Path) -> ResultTable:
    """Compare the rules of extraction on the stored verdicts of a results directory.

    Args:
        results: The results directory.

    Returns:
        The table of `closed_extraction_table`.
    """
    return closed_extraction_table(closed_extractions(results))


def closed_extraction_table(extractions: pd.DataFrame) -> ResultTable:
    """Compare the rules of extraction on the closed models' raw answers.

    Args:
        extractions: The frame of `closed_extractions`.

    Returns:
        One row per model and rule. Differences are from the rule that made the published results.
    """
    rows = []
    for (model, rule), group in extractions.groupby(["model", "extraction"], sort=False):
        passed = group.set_index("task")["passed"]
        model_extractions = extractions[extractions["model"] == model]
        first_blocks = model_extractions[model_extractions["extraction"] == FIRST_BLOCK]
        as_used = first_blocks.set_index("task")["passed"]
        cells = [
            str(model),
            EXTRACTION_LABELS.get(str(rule), str(rule)),
            str(passed.count()),
            str(group["empty"].sum()),
            str((~group["as_published"]).sum()),
            str((group["passed"] != group["published"]).sum()),
            percent(passed.mean()),
        ]
        difference = None
        if rule != FIRST_BLOCK:
            difference = paired_score(passed, as_used.reindex(passed.index))
        rows.append(cells + difference_cells(difference))
    columns = [
        "model",
        "extraction",
        "tasks",
        "empty answers",
        "solutions that differ",
        "verdicts that differ",
        "pass@1",
        *DIFFERENCE_COLUMNS,
    ]
    frame = pd.DataFrame(rows, columns=columns, dtype=object).set_index("model")
    first = EXTRACTION_LABELS[FIRST_BLOCK]
    note = (
        "Published raw answers to VoyageEmb's prompts of MBPP; the authors published no others. "
        "Solutions and verdicts that differ are compared with the published ones; white space "
        "around a solution does not count. The difference "
        f"is in percentage points of pass@1, paired by task, from '{first}', the rule "
        "by which the authors extracted the answers of closed models. Intervals are Tango's score intervals. "
        "Intervals and p are per row, not corrected."
    )
    return ResultTable(
        "Rules of extraction on the closed models' published answers (MBPP, VoyageEmb)",
        frame,
        (note,),
    )
