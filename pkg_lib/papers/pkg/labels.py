"""Names and definitions that several tables and figures of the PKG paper's notebooks show."""

from collections.abc import Iterable
from textwrap import fill

from pkg_lib.analysis.sentences import counted
from pkg_lib.data.corpora import PUBLISHED, corpus_in_words
from pkg_lib.data.corpus_spec import parse_corpus
from pkg_lib.evaluation.results import Results

TITLE_CHARS = 52  # of a line in a figure of one text column
# Name of a selection -> what tables call it. Reranked is the rule of the authors' code.
SELECTION_LABELS = {
    "Equation 11, as printed": "Reranked, the paper's formula",
    "Equation 11, authors' code": "Reranked, the authors' code",
    "Visible": "by visible examples",
    "Visible, then agreement": "by visible examples, then agreement",
}
# Style of a prompt -> what tables and legends call it: no answer here is of the model of that name.
STYLE_LABELS = {
    "codellama": "CodeLlama-style",
    "starcoder2": "StarCoder2-style",
    "deepseek": "DeepSeek-Coder-style",
}
# The paper's Table 7 spells two models differently from its Tables 1 to 4.
TABLE7_SPELLING = {
    "StarCoder-7B": "StarCoder2-7B",
    "DeepSeekCoder-7B": "DeepSeek-Coder-7B",
}


def voyage_note(corpus: str) -> str:
    """Say with which embedder VoyageEmb retrieves.

    Args:
        corpus: Name of a corpus.

    Returns:
        One sentence without a colon, so that a caption can hold it.
    """
    name = "VoyageEmb is the paper's name for rows retrieved by embedding"
    if corpus == PUBLISHED:
        return f"{name}, here the rows that the authors retrieved with Voyage-Code-2."
    return f"{name}, in the paper with Voyage-Code-2, here with {parse_corpus(corpus).embedder}."


def selection_label(selection: str) -> str:
    """Return what tables call a selection among candidates.

    Args:
        selection: A name of `selection.SELECTIONS`, or another selection.
    """
    return SELECTION_LABELS.get(selection, selection)


def style_label(style: str) -> str:
    """Return what tables and legends call a style of prompts.

    Args:
        style: Name of the style.
    """
    return STYLE_LABELS.get(style, style)


def table7_setting(setting: str) -> str:
    """Spell a setting of the paper's Table 7 as its other tables do.

    Args:
        setting: A model as printed there, alone or with " + " and a method.
    """
    model, plus, method = setting.partition(" + ")
    return TABLE7_SPELLING.get(model, model) + plus + method


def figure_title(message: str, results: Results) -> str:
    """Write the title of a figure as wide as one column of text.

    Args:
        message: What the figure shows.
        results: The experiment that it is about.

    Returns:
        The message, then the model and the number of tasks, then the benchmark and the corpus.
    """
    tasks = counted(len(results.verdicts()), "task")
    if results.limit:
        tasks = f"first {tasks}"
    about = f"{results.benchmark_spec.title}, {corpus_in_words(results.corpus)}"
    lines = [message, f"{results.model}, {tasks}", about]
    return "\n".join(fill(line, TITLE_CHARS, break_on_hyphens=False) for line in lines)


def models_in_words(models: Iterable[str]) -> str:
    """Name the models of a figure in a line of its title.

    Args:
        models: Names of models; equal ones are named once.
    """
    return fill(", ".join(dict.fromkeys(models)), TITLE_CHARS, break_on_hyphens=False)
