"""The knowledge base K (Section 2.2): documents, snippets, feedback and web pages.

The budgets are those of Appendix F: the documentation takes what the other sources leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import shorten

from pkg_lib.data.corpora import UNICODE
from pkg_lib.papers.evor.evor_benchmark import document_head
from pkg_lib.papers.evor.evor_methods import EvorMethod
from pkg_lib.papers.evor.text_index import MAX_RANKED, TextIndex
from pkg_lib.retrieval.budget import Measure, fitting_texts

DOCUMENTS = "documents"
SNIPPETS = "snippets"
# The sources in the order of a context, with the heading of each.
TITLES = {
    "feedback": "What failed in other programs:",
    SNIPPETS: "Lines of programs that run:",
    "web": "From the web:",
    DOCUMENTS: "Documentation:",
}
# The headings where the knowledge base holds whole programs, of other tasks and of the task itself.
TITLES_OF_PROGRAMS = TITLES | {
    "feedback": "What failed in earlier programs:",
    SNIPPETS: "Programs that run without error:",
}
HEAD_CHARACTERS = 120  # of a document's name, signature or first sentence in a list of names


@dataclass(frozen=True)
class ContextRequest:
    """What one task requests from the knowledge base.

    Attributes:
        queries: q_i; where the loop's options say so, also the question n after the first round.
        introduction: The first part of the context; "" for none.
        ending: The last part of the context, such as the task's own error; "" for none.
        budget: Tokens of the context; None for the method's or the benchmark's number.
    """

    queries: tuple[str, ...]
    introduction: str = ""
    ending: str = ""
    budget: int | None = None


@dataclass(frozen=True)
class RetrievedKnowledge:
    """K_r of Algorithm 1.

    Attributes:
        text: The context.
        documents: The names of the documents in it.
    """

    text: str
    documents: list[str]


@dataclass
class KnowledgeBase:
    """K of Algorithm 1. It does not change while a round runs.

    Attributes:
        documents: Name -> text of the documentation.
        collected: Source, such as "snippets" -> its texts as a context shows them.
        tokenizer: Name of BM25's tokenizer.
        searched: Source -> its texts as they are searched, where more is searched than shown. Of a pair
            (p, F) the whole program is searched, and its error with the line is shown (Appendix F).
        language: The language of the fence around snippets.
        titles: The heading of each source in a context.
        ranked: How many texts of a source are ranked for a query.
    """

    documents: Mapping[str, str]
    collected: Mapping[str, Sequence[str]]
    tokenizer: str = UNICODE
    searched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    language: str = "python"
    titles: Mapping[str, str] = field(default_factory=lambda: TITLES)
    ranked: int = MAX_RANKED

    @cached_property
    def _document_index(self) -> TextIndex:
        return TextIndex(list(self.documents.values()), self.tokenizer)

    def retrieve(
        self,
        requests: Sequence[ContextRequest],
        method: EvorMethod,
        budgets: Mapping[str, int],
        measure: Measure,
    ) -> list[RetrievedKnowledge]:
        """Retrieve K_r = R(q_i, K), line 9 of Algorithm 1.

        Args:
            requests: What each task requests.
            method: Says which sources are searched, and how.
            budgets: Tokens of a context and of its parts; see `EvorBenchmark.budgets`.
            measure: Counts the tokens of a text.

        Returns:
            The retrieved knowledge of each request, in order.
        """
        queries = [request.queries for request in requests]
        sources = [s for s in TITLES if s in method.sources and self.collected.get(s)]
        rankings = {}
        for source in sources:
            texts = self.searched.get(source, self.collected[source])
            index = TextIndex(texts, self.tokenizer)
            rankings[source] = index.rank_by_turns(queries, method.retriever, self.ranked)
        uses_documents = DOCUMENTS in method.sources
        document_rankings: list[list[int]] = [[] for _ in requests]
        if uses_documents:
            document_rankings = self._document_index.rank_by_turns(
                queries, method.retriever, self.ranked
            )
        retrieved = []
        for number, request in enumerate(requests):
            budget = method.context or budgets["context"]
            if request.budget is not None:
                budget = request.budget
            parts = [request.introduction] if request.introduction else []
            for source in sources:
                limit = min(budget, budgets.get(source, budget))
                ranking = rankings[source][number]
                part = self._collected_part(source, ranking, request.ending, limit, measure)
                if part:
                    parts.append(part)
            names: list[str] = []
            if uses_documents:
                left = budget - sum(measure(part) for part in [*parts, request.ending])
                ranking = document_rankings[number]
                shown = self._fitting_documents(ranking, method.brief, left, measure)
                names = list(shown)
                if shown:
                    parts.append(_documents_part(list(shown.values()), bool(request.ending)))
            if request.ending:
                parts.append(request.ending)
            retrieved.append(RetrievedKnowledge("\n\n".join(parts), names))
        return retrieved

    def _collected_part(
        self,
        source: str,
        ranking: Sequence[int],
        ending: str,
        limit: int,
        measure: Measure,
    ) -> str:
        """The part of a context that one source fills; "" if nothing fits.

        A text that the ending repeats is left out.
        """
        ranked = [self.collected[source][position] for position in ranking]
        texts = [text for text in dict.fromkeys(ranked) if text not in ending]
        text = "\n\n".join(fitting_texts(texts, limit, measure))
        if not text:
            return ""
        if source == SNIPPETS:
            text = f"```{self.language}\n{text}\n```"
        return f"{self.titles[source]}\n{text}"

    def _fitting_documents(
        self,
        ranking: Sequence[int],
        brief: bool,
        limit: int,
        measure: Measure,
    ) -> dict[str, str]:
        """The names and texts of the best documents that fit into a number of tokens."""
        names = list(self.documents)
        texts = [self._document_index.texts[position] for position in ranking]
        if brief:
            texts = [document_head(text) for text in texts]
        fitting = fitting_texts(texts, limit, measure)
        found = [names[position] for position in ranking]
        return dict(zip(found, fitting, strict=False))

    @cached_property
    def _headlines(self) -> dict[str, str]:
        """What a missing name is compared with -> what the prompt shows of a document.

        The key has the last part of the document's name and its first sentence; the value has its signature
        and that sentence.
        """
        headlines: dict[str, str] = {}
        for name, text in self.documents.items():
            signature, about = document_head(text).split("\n", 1)
            signature = _shortened(signature)
            about = _shortened(about)
            words = name.rpartition(".")[2].replace("_", " ")
            headlines.setdefault(f"{words}: {about}", f"{signature}: {about}")
        return headlines

    def nearest_documents(self, names: Sequence[str], method: EvorMethod) -> list[str]:
        """Find the documents nearest to names that do not exist.

        This goes beyond the paper.

        Args:
            names: The names.
            method: Says how many documents are listed, and how they are ranked.

        Returns:
            For each name, lines with a signature and a first sentence; "" if the method lists none.
        """
        if not method.nearest:
            return [""] * len(names)
        lines = list(self._headlines.values())
        index = TextIndex(list(self._headlines), self.tokenizer)
        queries = [name.replace("_", " ") for name in names]
        found = []
        for ranking in index.rank(queries, method.retriever):
            nearest = [lines[position] for position in ranking[: method.nearest]]
            found.append("\n".join(nearest))
        return found


def _documents_part(texts: list[str], error_follows: bool) -> str:
    """The documentation of a context; the best document is nearest to the error that follows."""
    ordered = texts[::-1] if error_follows else texts
    text = "\n\n".join(ordered)
    return f"{TITLES[DOCUMENTS]}\n{text}"


def _shortened(text: str) -> str:
    return shorten(text, HEAD_CHARACTERS, placeholder=" ...")
