"""Sentences on cAST's results: retrieval, completions, and functions that are cut."""

from pkg_lib.analysis import stats
from pkg_lib.analysis.sentences import compared, counted, finding
from pkg_lib.analysis.tables import percent
from pkg_lib.papers.cast.cast_results import PAPER_NAME, CastResults
from pkg_lib.papers.cast.cast_steps import LINES, MEAN, OWN, RANKERS

# What is compared with fixed-size chunks -> chunking and mapping.
COMPARED = {
    "cAST": ("cast", MEAN),
    "cAST on its own chunks": ("cast", OWN),
    "split-only": ("split-only", MEAN),
}
NDCG = "nDCG@5"
BODY_IN_CORPUS = ", body in corpus"
Differences = dict[str, stats.Difference | None]  # what is compared -> the difference


def cast_findings(cast: CastResults) -> list[str]:
    """Return sentences on the results.

    Args:
        cast: The results.

    Returns:
        Sentences on retrieval, completions, bodies in the corpus, and chunks. What was not measured
        has none.
    """
    return [
        *main_finding(cast),
        *_retrieval_findings(cast),
        *_completion_findings(cast),
        *repoeval_findings(cast),
        *_leak_findings(cast),
        *_chunk_findings(cast),
    ]


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


def _retrieval_findings(cast: CastResults) -> list[str]:
    sentences = []
    for ranker in RANKERS:
        fixed = cast.ranking(ranker, "fixed-size", NDCG)
        differences: Differences = {}
        for name, (chunking, mapping) in COMPARED.items():
            values = cast.ranking(ranker, chunking, NDCG, mapping)
            differences[name] = stats.mean_difference(values, fixed)
        head = f"{NDCG} on package functions with {ranker} minus that of fixed-size chunks"
        sentences += _compared(head, differences)
        differences = {}
        for n in (60, *LINES):
            name = f"cAST, mapped to {n} lines"
            values = cast.repoeval_ranking(ranker, name, NDCG)
            fixed = cast.repoeval_ranking(ranker, f"fixed-size, {n} lines", NDCG)
            differences[name] = stats.mean_difference(values, fixed)
        values = cast.repoeval_ranking(ranker, "cAST, mapped to windows of 20 lines", NDCG)
        windows = cast.repoeval_ranking(ranker, "windows of 20 lines in steps of 10", NDCG)
        name = "cAST, mapped to windows of 20 lines in steps of 10"
        differences[name] = stats.mean_difference(values, windows)
        head = f"{NDCG} on RepoEval with {ranker} minus that of fixed-size chunks"
        sentences += _compared(head, differences)
    return sentences


def _completion_findings(cast: CastResults) -> list[str]:
    sentences = []
    rate = stats.pass_at_1(cast.verdicts_of(stats.BASELINE))
    if rate.measured:
        tasks = counted(rate.measured, "task")
        share = f"{rate.passed} of {tasks} ({percent(rate.value)} %)"
        sentences.append(f"{cast.model} passes {share} without retrieved context.")
    passes: Differences = {}
    similarities: Differences = {}
    same_prompts = []
    without = cast.body_match(stats.BASELINE, "edit")
    for ranker in RANKERS:
        methods = [f"{chunking}, {ranker}" for chunking in PAPER_NAME]
        for method in methods:
            similarity = cast.body_match(method, "edit")
            similarities[method] = stats.mean_difference(similarity, without)
        chunked, fixed = methods
        passes[chunked] = stats.paired_bootstrap(
            cast.verdicts_of(chunked),
            cast.verdicts_of(fixed),
        )
        same_prompts += _same_prompts(cast, chunked, fixed)
    head = "pass@1 of package functions minus that of fixed-size chunks"
    sentences += _compared(head, passes)
    head = "Edit similarity of the bodies minus that of NoRAG"
    sentences += _compared(head, similarities)
    sentences += finding("The prompt is that of fixed-size chunks", same_prompts)
    return sentences


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


def _same_prompts(cast: CastResults, method: str, other: str) -> list[str]:
    """Say for how many tasks two methods have the same prompt; nothing if one is not stored."""
    prompts = _prompt_digests(cast, method)
    others = _prompt_digests(cast, other)
    if not (prompts and others):
        return []
    same = len(prompts & others)
    return [f"{method} in {same} of {counted(len(prompts), 'task')}"]


def _prompt_digests(cast: CastResults, method: str) -> set[tuple[str, str]]:
    """Return the task and the digest of each stored prompt."""
    contexts = cast.packages.contexts(method)
    return {(context.task_id, context.prompt_sha256) for context in contexts}


def _leak_findings(cast: CastResults) -> list[str]:
    """Return sentences on the methods whose corpus contains the bodies to write."""
    sentences = []
    for method in map(str, cast.verdicts):
        if not method.endswith(BODY_IN_CORPUS):
            continue
        contexts = cast.packages.contexts(method)
        holding = sum(bool(context.defines_task) for context in contexts)
        share = f"{holding} of {counted(len(contexts), 'prompt')}"
        verdicts = cast.verdicts_of(method)
        masked = cast.verdicts_of(method.removesuffix(BODY_IN_CORPUS))
        difference = stats.paired_bootstrap(verdicts, masked)
        head = f"The body itself is in {share} of {method}; pass@1 minus that of the masked corpus"
        sentences += _compared(head, {method: difference})
    return sentences


def _chunk_findings(cast: CastResults) -> list[str]:
    """Return the share of functions that both chunkings cut, by language."""
    frame = cast.chunk_statistics
    frame = frame[frame["mode"] == "as-published"]
    sentences = []
    for language, rows in frame.groupby("language", sort=False):
        by_method = rows.drop_duplicates("method").set_index("method")
        shares = by_method["functions_cut"] / by_method["functions"]
        cast_share = percent(shares["cast"])
        fixed_share = percent(shares["fixed-size"])
        cut = f"cAST {cast_share} %, fixed-size {fixed_share} %"
        sentences.append(f"Functions that are cut, {language}: {cut}.")
    return sentences
