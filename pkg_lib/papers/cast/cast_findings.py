"""Sentences on cAST's results: retrieval, completions, and functions that are cut."""

from pkg_lib.analysis import stats
from pkg_lib.analysis.sentences import compared, counted, finding
from pkg_lib.papers.cast.cast_results import PAPER_NAME, CastResults

# What is compared with fixed-size chunks -> chunking and mapping.
Differences = dict[str, stats.Difference | None]  # what is compared -> the difference


def main_finding(cast: CastResults) -> list[str]:
    """Say whether cAST's chunks or fixed-size chunks, ranked by BM25, let the model complete more functions.

    Args:
        cast: The results.

    Returns:
        One text of two sentences; none if one of the two was not measured.
    """
    chunked, fixed = (cast.verdicts_of(f"{chunking}, BM25") for chunking in PAPER_NAME)
    difference = stats.paired_bootstrap(chunked, fixed)
    if difference is None:
        return []
    test = "significant" if difference.p < stats.ALPHA else "not significant"
    functions = counted(int(chunked.count()), "function")
    change = compared("pass@1", difference).removeprefix("pass@1 ")
    return [
        f"With BM25, {cast.model} completes {chunked.sum()} of {functions} of three packages if it sees "
        f"cAST's chunks, and {fixed.sum()} if it sees chunks of fixed size. "
        f"The difference is {test}: {change}."
    ]


def _compared(head: str, differences: Differences) -> list[str]:
    """Return a sentence on the differences that were measured; nothing if there is none."""
    parts = []
    for name, difference in differences.items():
        if difference:
            parts.append(compared(name, difference, sized=True))
    return finding(head, parts)


def repoeval_findings(cast: CastResults) -> list[str]:
    """Compare cAST with fixed-size chunks on the functions of RepoEval that tests judge.

    Args:
        cast: The results.

    Returns:
        One sentence; none if one of the two was not measured.
    """
    verdicts = cast.repoeval_verdicts
    chunked, fixed = (f"{chunking}, BM25" for chunking in PAPER_NAME)
    if chunked not in verdicts or fixed not in verdicts:
        return []
    difference = stats.paired_bootstrap(verdicts[chunked], verdicts[fixed])
    head = "pass@1 of RepoEval's functions that tests judge minus that of fixed-size chunks"
    return _compared(head, {chunked: difference})
