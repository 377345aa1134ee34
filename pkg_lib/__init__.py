"""Context-augmented code generation with programming knowledge graphs.

The names below are the public interface; everything else may change. A study is one call:

    from pkg_lib import Condition, compare, evaluate

    methods = ["NoRAG", "BM25", "Func-PKG"]
    model, benchmark, corpus = "qwen2.5-coder-0.5b-instruct", "humaneval", "textbook+stdlib"
    results = evaluate([Condition(model, benchmark, corpus, m) for m in methods])
    print(compare(results))

Its steps can be taken one by one, too: `load_benchmark`, `load_corpus`, `build_graph`, `make_retriever`,
`build_prompt`, `generate`, `extract_solution`, `run_tests`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pkg_lib.analysis.comparison import compare, pass_at_k
    from pkg_lib.core.types import Context, Document, Outcome, Task
    from pkg_lib.data.benchmarks import load_benchmark
    from pkg_lib.data.corpora import load_corpus
    from pkg_lib.evaluation.conditions import Condition, Sample
    from pkg_lib.evaluation.pipeline import evaluate, run_tests
    from pkg_lib.evaluation.results import load_results
    from pkg_lib.generation.extraction import extract_solution
    from pkg_lib.generation.generator import generate
    from pkg_lib.generation.prompts import build_prompt
    from pkg_lib.retrieval.methods import Method, build_graph, make_retriever

__all__ = [
    "Condition",
    "Context",
    "Document",
    "Method",
    "Outcome",
    "Sample",
    "Task",
    "build_graph",
    "build_prompt",
    "compare",
    "evaluate",
    "extract_solution",
    "generate",
    "load_benchmark",
    "load_corpus",
    "load_results",
    "make_retriever",
    "pass_at_k",
    "run_tests",
]

# Modules are imported when one of their names is used, so that `import pkg_lib` is fast.
_MODULES = {
    "Condition": "evaluation.conditions",
    "Context": "core.types",
    "Document": "core.types",
    "Method": "retrieval.methods",
    "Outcome": "core.types",
    "Sample": "evaluation.conditions",
    "Task": "core.types",
    "build_graph": "retrieval.methods",
    "build_prompt": "generation.prompts",
    "compare": "analysis.comparison",
    "evaluate": "evaluation.pipeline",
    "extract_solution": "generation.extraction",
    "generate": "generation.generator",
    "load_benchmark": "data.benchmarks",
    "load_corpus": "data.corpora",
    "load_results": "evaluation.results",
    "make_retriever": "retrieval.methods",
    "pass_at_k": "analysis.comparison",
    "run_tests": "evaluation.pipeline",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'pkg_lib' has no attribute {name!r}")
    return getattr(import_module(f"pkg_lib.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
