"""The columns of Tables 1 to 4, and which of them a corpus offers. A new column is one entry of COLUMNS."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Context, Retriever, Task, UserError
from pkg_lib.data import corpora, published

EVERY = ("*",)  # a column that needs every column that the corpus offers
Make = Callable[[Any], Retriever]  # from a Knowledge, whose module is loaded late


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the tables; without a retriever it chooses among the solutions of those that it `needs`.

    With one it retrieves only after these are completed.

    A variant `of` another column is offered where that is, and stands in a table only where it is asked for;
    without a retriever of its own it takes that column's contexts. It may have another `wording` of the
    prompt, or draw at a `temperature` above 0: `sample` is the number of the draw, from 1.

    With a `style`, the model gets that style's prompt in place of its own: without its chat template, as the
    paper's authors send it, or, where it is `in_chat`, as the user's message in that template. The answer is
    kept whole, since the authors' extraction reads all of it.
    """

    name: str
    retriever: Make | None = None
    kinds: tuple[str, ...] = ("code", "published")  # of the corpora that offer it
    unit: str = ""  # what it retrieves
    published_as: str = ""
    needs: tuple[str, ...] = ()
    of: str = ""
    wording: str = ""
    style: str = ""
    in_chat: bool = False
    temperature: float = 0.0
    top_p: float = 1.0
    sample: int = 0

    @property
    def contexts(self) -> str:
        """The column whose contexts it takes."""
        return self.of if self.of and not self.retriever else self.name

    @property
    def decoding(self) -> dict[str, Any]:
        """The parameters that differ from the benchmark's greedy decoding."""
        changed: dict[str, Any] = {}
        if self.style:
            changed |= {"style": self.style, "stop": "end"}
        if self.in_chat:
            changed["template"] = "chat"
        if self.sample:
            changed |= {"do_sample": True, "temperature": self.temperature, "top_p": self.top_p}
        return changed


def _built_in(name: str, module: str = "retrievers", **options: str) -> Make:
    """A class of a module here, which is loaded when the column is asked for its contexts."""
    module = f"pkg_lib.retrieval.{module}"
    return lambda knowledge: getattr(import_module(module), name)(knowledge, **options)


# column -> wordings of the prompt (generation/prompts.py) beside the paper's; without a context there is one
_OTHER = ("context first", "earlier turn", "helper section")
WORDINGS = {"None": ("no code was found",), "Func-PKG": _OTHER, "Block-PKG": _OTHER}
# Styles of the paper's models, with which the effect of prompt, content and extraction is taken apart.
PAPER_STYLES = ("codellama", "starcoder2", "deepseek")
GRAPH_UNITS = {"Func-PKG": "function", "Block-PKG": "block"}
ROWS, ANY = ("code", "text"), ("code", "text", "published")


IN_CHAT = (False, True)


def style_label(style: str, in_chat: bool) -> str:
    """How the name of a method says in which style it asks, and whether in the model's chat template."""
    return f"{style} prompt in chat" if in_chat else f"{style} prompt"


def _in_style(style: str, in_chat: bool) -> Iterator[Column]:
    """The methods that ask every model in the style of one of the paper's models."""
    contents = [
        ("None", ""),
        ("None", "no code was found"),
        ("Block-PKG", ""),
        ("Block-PKG, swapped", ""),
    ]
    if style == "codellama":
        contents.append(("None", "no stray quote"))
    for of, wording in contents:
        name = ", ".join(filter(None, (of, style_label(style, in_chat), wording)))
        yield Column(name, of=of, wording=wording, style=style, in_chat=in_chat)


COLUMNS: Registry[Column] = Registry(
    "column",
    (
        Column("None", _built_in("NoRetrieval"), (*ANY, "repository", "library-documents")),
        Column("BM25", _built_in("BM25Rows"), ROWS, "row"),
        Column("Dense", _built_in("DenseRows"), ANY, "row", published_as="VoyageEmb"),
        Column("Func-BM25", _built_in("FuncBM25"), unit="function"),
        Column("Func-PKG", _built_in("FuncPKG"), unit="function"),
        Column("Block-PKG", _built_in("BlockPKG"), unit="block"),
        Column("JSON-PKG", _built_in("JsonPKG"), ("text",), "path-value"),
        Column("Reranked", kinds=ANY, needs=EVERY),
        Column("Ideal", kinds=ANY, published_as="Ideal Reranker", needs=EVERY),
        *(
            Column(f"{of}, {wording}", of=of, wording=wording)
            for of, wordings in WORDINGS.items()
            for wording in wordings
        ),
        *(
            Column(f"{of}, {how}", _built_in(name, "control_contexts", of=of), unit=unit, of=of)
            for of, unit in GRAPH_UNITS.items()
            for how, name in (("swapped", "SwappedContexts"), ("leak-free", "LeakFreeContexts"))
        ),
        *(
            Column(
                f"{of}, {how}", _built_in(of.replace("-", ""), pruning=how), ("code",), unit, of=of
            )
            for of, unit in GRAPH_UNITS.items()
            for how in (
                "paper-literal",
                "unpruned",
            )  # the columns themselves are guarded (prune.py)
        ),
        Column(
            "Func-PKG, enhanced",
            _built_in("EnhancedFuncPKG", "enhanced"),
            ("code",),
            "function",
            of="Func-PKG",
        ),
        *(
            column
            for style in PAPER_STYLES
            for in_chat in IN_CHAT
            for column in _in_style(style, in_chat)
        ),
    ),
)


DRAW = re.compile(
    r"(?P<of>.+), T(?P<temperature>[\d.]+)(, p(?P<top_p>[\d.]+))?, (?P<sample>[1-9]\d*)"
)
TOP_P = 0.95


def draw_name(of: str, temperature: float, top_p: float, sample: int) -> str:
    """The column of a column's draws: "None, T0.8, 1" is the first of None's at temperature 0.8."""
    nucleus = "" if top_p == TOP_P else f", p{top_p}"
    return f"{of}, T{temperature}{nucleus}, {sample}"


def column_of(name: str) -> Column:
    """The column of a name, which may be that of a draw. UserError for an unknown one."""
    draw = None if name in COLUMNS else DRAW.fullmatch(name)
    if draw is None:
        return COLUMNS.get_or_fail(name)
    of, top_p = COLUMNS.get_or_fail(draw["of"]), float(draw["top_p"] or TOP_P)
    how = {"temperature": float(draw["temperature"]), "top_p": top_p, "sample": int(draw["sample"])}
    return replace(of, name=name, retriever=None, of=of.contexts, published_as="", **how)


def contexts_of(name: str) -> str:
    """The column whose contexts a column takes; `name` itself where it is none, as a file's may be."""
    return column_of(name).contexts if name in COLUMNS or DRAW.fullmatch(name) else name


def stages(names: Iterable[str]) -> list[list[str]]:
    """Columns in their order, those together that can be completed together."""
    stages: list[list[str]] = [[]]
    for name in names:
        if {*column_of(name).needs} & {*stages[-1]}:
            stages.append([])
        stages[-1].append(name)
    return stages


def retrieved() -> list[str]:
    """The columns that retrieve and are no variants, in the order in which they are shown."""
    return [c.name for c in COLUMNS.values() if c.retriever and not c.of]


def variants() -> list[str]:
    return [c.name for c in COLUMNS.values() if c.of]


class PublishedContexts:
    """A column whose contexts the authors retrieved: the top one of each task as published, unpruned."""

    def __init__(self, knowledge: Any, column: str) -> None:
        self.column, self.texts = column, {d.id: d.text for d in knowledge.documents}

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order, empty where none was published. UserError for another task."""
        names = {t.id: published.context_id(self.column, t.id) for t in tasks}
        if absent := [task for task, name in names.items() if name not in self.texts]:
            raise UserError(
                f"corpus published has no {self.column} context for {absent[0]}; take humaneval or mbpp"
            )
        return [Context(i, self.column, self.texts[name], name) for i, name in names.items()]

    def ranked(self, tasks: list[Task], k: int) -> list[Iterator[tuple[str, Context]]]:
        """For each task its first k published contexts as (text, context), best first."""
        texts = {
            task: texts[:k] for column, task, texts in published.ranked() if column == self.column
        }
        sources = {t.id: published.context_id(self.column, t.id) for t in tasks}
        return [
            iter([(x, Context(i, self.column, x, source)) for x in texts[i]])
            for i, source in sources.items()
        ]


def base(column: str, knowledge: Any) -> Any:
    """The retriever of a column over a corpus, whose documents say whether the authors retrieved them."""
    if any(d.id.startswith(f"{corpora.PUBLISHED}/") for d in knowledge.documents[:1]):
        return PublishedContexts(knowledge, column)
    return COLUMNS[column].retriever(knowledge)


def columns_of(corpus: str) -> dict[str, Make]:
    """The retrievers that a corpus offers, by column; UserError for one that mixes code and text."""
    kind = corpora.kind_of(corpus)
    whole = (c for c in COLUMNS.values() if not c.of)
    offered = {c.name: c.retriever for c in whole if c.retriever and kind in c.kinds}
    if kind == "published":
        offered |= {c: partial(PublishedContexts, column=c) for c in published.FILES}
    return offered


def knowledge_of(corpus: str) -> Any:
    """A corpus' documents as a Knowledge, ready for its columns."""
    from pkg_lib.retrieval.embed import Embedder
    from pkg_lib.retrieval.knowledge import Knowledge, TextKnowledge
    from pkg_lib.retrieval.stored_graph import StoredKnowledge

    place, how = corpora.retrieval(corpus)
    documents = corpora.load_corpus(corpus)
    options = how.top, how.chars, corpora.tokenizer_of(corpus)
    shared = documents, Embedder(how.embedder), *options, place
    if corpora.is_stored_graph(corpus):
        return StoredKnowledge(*shared, place=place)
    if not corpora.is_text(corpus):
        return Knowledge(*shared)
    from pkg_lib.data.structuring import (
        json_of,
    )  # docutils and its like are not needed for a corpus of code

    return TextKnowledge(*shared, structure=partial(json_of, corpus))
