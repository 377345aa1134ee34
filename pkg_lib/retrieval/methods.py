"""Methods: the columns of the paper's Tables 1 to 4, and the corpora that each can retrieve from.

A method decides where the context of a prompt comes from, how the prompt is worded and how the model is
sampled. The registry METHODS has every named method; `parse_method` also reads the names of sampled ones.
A new method is one entry of METHODS.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from pkg_lib.core.registry import PLUGIN, Registry, unknown
from pkg_lib.core.types import Context, Retriever, Task, UserError
from pkg_lib.data import corpora, published
from pkg_lib.generation.generator import GREEDY, Sampling

RetrieverFactory = Callable[[Any], Retriever]  # takes a Knowledge

NO_RAG = "NoRAG"
DENSE = "VoyageEmb"  # the paper's label of dense retrieval of rows, whatever embedder is used
RERANKED, IDEAL = "Reranked", "Ideal Reranker"
SELECTING = (RERANKED, IDEAL)  # methods that select among the solutions of others
AS_PRINTED = "Reranked, as printed"  # by the paper's Section 3.3 instead of the authors' code
EVERY_METHOD = ("*",)  # `needs` of a method that needs every other one that the corpus offers
TOP_P = 0.95  # the default of nucleus sampling; names leave it out

CODE, TEXT, PUBLISHED = "code", "text", "published"  # kinds of corpora
FUNCTION, BLOCK, ROW, PATH_VALUE = "function", "block", "row", "path-value"  # retrieved units

# The paper's models whose prompt styles are compared, to separate the effects of wording, content and
# answer extraction.
PAPER_STYLES = ("codellama", "starcoder2", "deepseek")
# Whether the style's prompt is sent as the user's message of the model's own chat template.
IN_CHAT = (False, True)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to answer a task.

    Attributes:
        name: Its name in tables, on the command line and in the API.
        make_retriever: Makes the retriever from a Knowledge. None for a method that takes the contexts of
            another one, or that selects among the solutions of others.
        corpus_kinds: Kinds of corpora that offer the method.
        unit: What it retrieves.
        by_words: Whether it ranks by words (BM25) instead of vectors.
        needs: Methods that must be completed before this one.
        variant_of: The method that it varies. A variant enters a table only when it is asked for by name.
        prompt_variant: Variant of the prompt's wording; "" for the default.
        style: Prompt style of one of the paper's models, used in place of the model's own. The answer is
            then kept whole, since the authors' extraction reads all of it.
        in_chat: Whether the prompt of `style` is sent through the model's chat template.
        sampling: How the model's tokens are chosen; `sample` counts from 1; 0 means greedy decoding.
        window: The most tokens of a prompt with its answer, for a method that fills a number of its own;
            0 for any other method.
        sample_of: The method of which this is one sample; "" for any other method.
    """

    name: str
    make_retriever: RetrieverFactory | None = None
    corpus_kinds: tuple[str, ...] = (CODE, PUBLISHED)
    unit: str = ""
    by_words: bool = False
    needs: tuple[str, ...] = ()
    variant_of: str = ""
    prompt_variant: str = ""
    style: str = ""
    in_chat: bool = False
    sampling: Sampling = GREEDY
    window: int = 0
    sample_of: str = ""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @property
    def context_method(self) -> str:
        """The name of the method whose contexts it takes: its own where it retrieves."""
        if self.variant_of and self.make_retriever is None:
            return self.variant_of
        return self.name

    @property
    def uses_graph(self) -> bool:
        """Whether it retrieves nodes of the graph."""
        return self.unit in (FUNCTION, BLOCK, PATH_VALUE)

    @property
    def is_user_supplied(self) -> bool:
        """Whether a plug-in added it: its retriever is defined outside of this package."""
        return getattr(self.make_retriever, "__module__", None) == PLUGIN

    @property
    def without_context(self) -> bool:
        """Whether its prompts hold no retrieved context."""
        return self.context_method == NO_RAG

    @property
    def decoding(self) -> dict[str, Any]:
        """The decoding parameters that differ from the benchmark's greedy decoding."""
        changed: dict[str, Any] = {}
        if self.style:
            changed["style"] = self.style
            changed["stop"] = "end"
        if self.in_chat:
            changed["template"] = "chat"
        if self.sampling.sample:
            changed["do_sample"] = True
            changed["temperature"] = self.sampling.temperature
            changed["top_p"] = self.sampling.top_p
        return changed


# The methods


def _retriever(name: str, module: str = "retrievers", **options: str) -> RetrieverFactory:
    """Return a factory that imports a retriever class only when it is needed.

    Args:
        name: A class of a module in this folder.
        module: That module.
        **options: Further arguments of the class.
    """

    def make(knowledge: Any) -> Retriever:
        retriever_class = getattr(import_module(f"pkg_lib.retrieval.{module}"), name)
        retriever: Retriever = retriever_class(knowledge, **options)
        return retriever

    return make


GRAPH_METHODS = {"Func-PKG": FUNCTION, "Block-PKG": BLOCK}
# Prompt variants beside the default one (generation/prompts.py).
NO_CODE_FOUND = "no code was found"
_WITH_CONTEXT = ("context first", "earlier turn", "helper section", "no delimiters")
PROMPT_VARIANTS = {
    NO_RAG: (NO_CODE_FOUND,),
    "Func-PKG": _WITH_CONTEXT,
    "Block-PKG": _WITH_CONTEXT,
}
_ROW_KINDS = (CODE, TEXT)
_ANY_KIND = (CODE, TEXT, PUBLISHED)


def _table_methods() -> Iterator[Method]:
    """Yield the methods of Tables 1 to 4, in the paper's order."""
    every_kind = (*_ANY_KIND, "repository", "library-documents")
    yield Method(NO_RAG, _retriever("NoRetrieval"), every_kind)
    yield Method("BM25", _retriever("BM25Rows"), _ROW_KINDS, ROW, by_words=True)
    yield Method(DENSE, _retriever("DenseRows"), _ANY_KIND, ROW)
    yield Method("Func-BM25", _retriever("FuncBM25"), unit=FUNCTION, by_words=True)
    yield Method("Func-PKG", _retriever("FuncPKG"), unit=FUNCTION)
    yield Method("Block-PKG", _retriever("BlockPKG"), unit=BLOCK)
    yield Method("JSON-PKG", _retriever("JsonPKG"), (TEXT,), PATH_VALUE)
    yield Method(RERANKED, corpus_kinds=_ANY_KIND, needs=EVERY_METHOD)
    yield Method(IDEAL, corpus_kinds=_ANY_KIND, needs=EVERY_METHOD)


def _prompt_variants() -> Iterator[Method]:
    """The same contexts in another wording of the prompt."""
    for method, variants in PROMPT_VARIANTS.items():
        for variant in variants:
            yield Method(f"{method}, {variant}", variant_of=method, prompt_variant=variant)


def _context_variants() -> Iterator[Method]:
    """Controls with other contexts, and other rules of pruning."""
    for method, unit in GRAPH_METHODS.items():
        for change, retriever in (
            ("swapped", "SwappedContexts"),
            ("leak-free", "LeakFreeContexts"),
        ):
            factory = _retriever(retriever, "control_contexts", of=method)
            yield Method(f"{method}, {change}", factory, unit=unit, variant_of=method)
    for method, unit in GRAPH_METHODS.items():
        for pruning in ("paper-literal", "unpruned"):  # the default is guarded (prune.py)
            factory = _retriever(method.replace("-", ""), pruning=pruning)
            yield Method(f"{method}, {pruning}", factory, (CODE,), unit, variant_of=method)
    factory = _retriever("EnhancedFuncPKG", "enhanced")
    yield Method("Func-PKG, enhanced", factory, (CODE,), FUNCTION, variant_of="Func-PKG")


def style_label(style: str, in_chat: bool) -> str:
    """Return the part of a method's name that says whose prompt it sends.

    Args:
        style: A prompt style.
        in_chat: Whether the prompt goes through the model's chat template.
    """
    return f"{style} prompt in chat" if in_chat else f"{style} prompt"


def _style_variants() -> Iterator[Method]:
    """Every model prompted in the style of one of the paper's models, with several contents."""
    contents = [
        (NO_RAG, ""),
        (NO_RAG, NO_CODE_FOUND),
        ("Block-PKG", ""),
        ("Block-PKG, swapped", ""),
    ]
    for style in PAPER_STYLES:
        for in_chat in IN_CHAT:
            extra = [(NO_RAG, "no stray quote")] if style == "codellama" else []
            for method, variant in contents + extra:
                parts = [method, style_label(style, in_chat)]
                if variant:
                    parts.append(variant)
                yield Method(
                    ", ".join(parts),
                    variant_of=method,
                    prompt_variant=variant,
                    style=style,
                    in_chat=in_chat,
                )


METHODS: Registry[Method] = Registry(
    "method",
    [*_table_methods(), *_prompt_variants(), *_context_variants(), *_style_variants()],
)

# Names


# Names of an earlier version, which are still read.
OLD_NAMES = {"None": NO_RAG, "Dense": DENSE, "Ideal": IDEAL, "RK, drawn again": "RK, resampled"}
_OLD_NAME = re.compile(rf"(?P<old>{'|'.join(OLD_NAMES)})(?=$|,|@)")


def current_name(name: str) -> str:
    """Return the present name of a method that an earlier version called by another one.

    Args:
        name: A method's name, such as "None, T0.8, 1".

    Returns:
        Such as "NoRAG, T0.8, 1". Any other name is returned as it is.
    """
    match = _OLD_NAME.match(name)
    return OLD_NAMES[match["old"]] + name[match.end() :] if match else name


_SAMPLED = re.compile(
    r"(?P<method>.+), T(?P<temperature>\d+(\.\d+)?)(, p(?P<top_p>\d+(\.\d+)?))?, (?P<number>[1-9]\d*)"
)


def sampled_name(method: str, sampling: Sampling) -> str:
    """Return the name of one sample of a method, such as "NoRAG, T0.8, 1".

    Args:
        method: A method's name.
        sampling: How it is sampled.
    """
    nucleus = "" if sampling.top_p == TOP_P else f", p{sampling.top_p}"
    return f"{method}, T{sampling.temperature}{nucleus}, {sampling.sample}"


def parse_method(name: str) -> Method:
    """Return the method of a name. Its inverse is `str`.

    Args:
        name: A name of METHODS, or that of one sample of such a method (`sampled_name`). The names of
            an earlier version are read, too.

    Returns:
        The method. A sample takes the contexts of the method that is sampled.

    Raises:
        UserError: The name is unknown.
    """
    present = current_name(name)
    if present != name:
        note = f"method {name} is now called {present}"
        warnings.warn(note, FutureWarning, stacklevel=2)  # a kind that Python shows by default
        name = present
    match = None if name in METHODS else _SAMPLED.fullmatch(name)
    if match is None:
        return METHODS.get_or_fail(name)
    sampled = METHODS.get_or_fail(match["method"])
    sampling = Sampling(
        temperature=float(match["temperature"]),
        top_p=float(match["top_p"] or TOP_P),
        sample=int(match["number"]),
    )
    return replace(
        sampled,
        name=name,
        make_retriever=None,
        variant_of=sampled.context_method,
        sampling=sampling,
        sample_of=sampled.name,
    )


def rounds_of(name: str) -> list[str]:
    """Return the names of a method's rounds, such as "EVOR@0" to "EVOR@4" for "EVOR".

    Args:
        name: A method's name.

    Returns:
        The rounds in order. A name of METHODS, or one without rounds, is returned as it is.
    """
    if name in METHODS:
        return [name]
    rounds = [other for other in METHODS if other.startswith(f"{name}@")]
    return rounds or [name]


def rounds_together(names: Iterable[str]) -> list[str]:
    """Shorten a list of methods for people: all rounds of a method are one entry.

    Args:
        names: Names of methods.

    Returns:
        The names in order, with entries such as "EVOR@0 to @4".
    """
    last_rounds: dict[str, str] = {}  # method -> number of its last round; "" without rounds
    for name in names:
        method, _, number = name.partition("@")
        last_rounds[method] = number
    entries = []
    for method, last in last_rounds.items():
        if last:
            entries.append(f"{method}@0 to @{last}")
        else:
            entries.append(method)
    return entries


def is_method(name: str) -> bool:
    """Tell whether a name is that of a method or of one of its samples.

    Args:
        name: Any name. Names of an earlier version are not translated; see `current_name`.

    Returns:
        Whether the name is in METHODS or has the form of a sample, such as "NoRAG, T0.8, 1".
        Whether the sampled method exists is left to `parse_method`.
    """
    return name in METHODS or _SAMPLED.fullmatch(name) is not None


def context_method(name: str) -> str:
    """Return the name of the method whose contexts a method takes.

    Args:
        name: A method's name, or the name of another result file, which is returned as it is.
    """
    return parse_method(name).context_method if is_method(name) else name


def name_of_samples(name: str) -> str:
    """Return the name that all samples of a method share, such as "NoRAG, T0.8".

    Args:
        name: A method's name. One that is not sampled is returned as it is.
    """
    sampled = name not in METHODS and _SAMPLED.fullmatch(name) is not None
    return name.rpartition(", ")[0] if sampled else name


def retrieving_methods() -> list[str]:
    """Return the methods that retrieve and vary no other one, in the order of the tables."""
    return [m.name for m in METHODS.values() if m.make_retriever and not m.variant_of]


def variant_methods() -> list[str]:
    """Return the methods that vary another one."""
    return [m.name for m in METHODS.values() if m.variant_of]


def completion_stages(names: Iterable[str]) -> list[list[str]]:
    """Group methods so that each one's needs are completed before it.

    Args:
        names: Methods, in order.

    Returns:
        Groups in order. The methods of one group can be completed together.
    """
    stages: list[list[str]] = [[]]
    for name in names:
        needs = parse_method(name).needs
        if set(needs) & set(stages[-1]):
            stages.append([])
        stages[-1].append(name)
    return stages


# What a corpus offers


class PublishedContexts:
    """Contexts that the paper's authors retrieved: the first one of each task, not pruned.

    Attributes:
        method: The method whose contexts these are.
    """

    def __init__(self, knowledge: Any, method: str) -> None:
        self.method = method
        self._texts = {document.id: document.text for document in knowledge.documents}

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Return the published context of each task, empty where none was published.

        Args:
            tasks: Tasks of HumanEval or MBPP.

        Returns:
            One context per task, in order.

        Raises:
            UserError: A task is of another benchmark.
        """
        contexts = []
        for task in tasks:
            source = published.context_id(self.method, task.id)
            if source not in self._texts:
                raise UserError(
                    f"corpus published has no {self.method} context for {task.id}; "
                    "take humaneval or mbpp"
                )
            contexts.append(Context(task.id, self.method, self._texts[source], source))
        return contexts

    def ranked(self, tasks: list[Task], k: int) -> list[Iterator[tuple[str, Context]]]:
        """Return the first published contexts of each task, best first.

        Args:
            tasks: Tasks of HumanEval or MBPP.
            k: How many contexts per task, at most.

        Returns:
            For each task an iterator over pairs of text and context.
        """
        texts_of_task = {}
        for method, task_id, texts in published.ranked():
            if method == self.method:
                texts_of_task[task_id] = texts[:k]
        found: list[Iterator[tuple[str, Context]]] = []
        for task in tasks:
            source = published.context_id(self.method, task.id)
            texts = texts_of_task[task.id]
            contexts = [Context(task.id, self.method, text, source) for text in texts]
            found.append(iter(zip(texts, contexts, strict=True)))
        return found


def retriever_of(method: str, knowledge: Any) -> Any:
    """Return the retriever of a method over a corpus.

    Args:
        method: A method that retrieves.
        knowledge: The documents, with their indexes.

    Returns:
        The method's retriever, or the authors' own contexts where the documents are those.
    """
    first = knowledge.documents[:1]
    if first and first[0].id.startswith(f"{corpora.PUBLISHED}/"):
        return PublishedContexts(knowledge, method)
    factory = METHODS[method].make_retriever
    assert factory is not None, f"{method} does not retrieve"
    return factory(knowledge)


def methods_of(corpus: str) -> dict[str, RetrieverFactory]:
    """Return the retrieving methods that a corpus offers.

    Args:
        corpus: A corpus by name.

    Returns:
        Factory of the retriever by name of the method, in the order of the tables.

    Raises:
        UserError: The corpus mixes code and text.
    """
    kind = corpora.kind_of(corpus)
    offered: dict[str, RetrieverFactory] = {}
    for name in retrieving_methods():
        method = METHODS[name]
        if kind in method.corpus_kinds and method.make_retriever is not None:
            offered[name] = method.make_retriever
    if kind == PUBLISHED:
        for name in published.FILES:
            offered[name] = partial(PublishedContexts, method=name)
    return offered


def knowledge_of(corpus: str) -> Any:
    """Return the documents of a corpus with what its methods retrieve from.

    Args:
        corpus: A corpus by name.

    Returns:
        A Knowledge. Its graph, indexes and embeddings are made when a method asks for them.

    Raises:
        UserError: The corpus is not available.
    """
    loaded = corpora.load_corpus(corpora.parse_corpus(corpus))
    return _knowledge(loaded, loaded.spec.embedder, loaded.spec.top_k)


def _knowledge(corpus: corpora.Corpus, embedder: str, top_k: int) -> Any:
    """Return the Knowledge of a loaded corpus."""
    # These modules load numpy and more, which the names of methods do not need.
    from pkg_lib.retrieval.embed import Embedder
    from pkg_lib.retrieval.knowledge import Knowledge, TextKnowledge
    from pkg_lib.retrieval.stored_graph import StoredKnowledge

    spec = corpus.spec
    place = spec.documents
    tokenizer = corpora.tokenizer_of(spec)
    shared = (corpus.documents, Embedder(embedder), top_k, spec.length, tokenizer, place)
    if spec.is_stored_graph:
        return StoredKnowledge(*shared, place=place)
    if not corpora.is_text(spec.name):
        if corpora.own(spec):
            from pkg_lib.retrieval.code_base import UserCode

            return UserCode(*shared)
        return Knowledge(*shared)
    # docutils and similar packages are only needed for a corpus of text.
    from pkg_lib.data.structuring import json_of

    return TextKnowledge(*shared, structure=partial(json_of, spec.name))


def make_retriever(
    method: Method | str,
    corpus: corpora.Corpus,
    embedder: str = "",
    top_k: int = 1,
) -> Retriever:
    """Return a method's retriever over a corpus.

    Args:
        method: A method that retrieves, such as "Func-PKG", or its name.
        corpus: A corpus of `load_corpus`.
        embedder: An embedder by name; "" for the corpus' own.
        top_k: How many units a context holds.

    Returns:
        Its `retrieve(tasks)` returns one context per task, in order.

    Raises:
        UserError: The corpus does not offer the method, or the embedder is unknown.
    """
    about = parse_method(method) if isinstance(method, str) else method
    knowledge = _knowledge(corpus, embedder or corpus.spec.embedder, top_k)
    offered = methods_of(corpus.spec.name)
    if about.context_method not in offered:
        raise unknown("method", about.name, offered, f"for corpus {corpus.spec.name}")
    return offered[about.context_method](knowledge)


def build_graph(corpus: corpora.Corpus) -> Any:
    """Build the programming knowledge graph of a corpus (Section 3.1).

    Args:
        corpus: A corpus of `load_corpus`.

    Returns:
        A Graph of NAME, IMPL and BLOCK nodes for code, or of PATH and PATHVALUE nodes for text.

    Raises:
        UserError: The corpus mixes code and text, or its text is not structured yet.
    """
    return _knowledge(corpus, corpus.spec.embedder, corpus.spec.top_k).graph
