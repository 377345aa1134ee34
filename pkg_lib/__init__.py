r"""Context-augmented code generation: the experiment suite.

The names below are the public interface; everything else may change. An experiment is one call:

    from pkg_lib import Condition, compare, evaluate

    methods = ["NoRAG", "BM25", "Func-PKG"]
    model, benchmark, corpus = "qwen2.5-coder-0.5b-instruct", "humaneval", "textbook+stdlib"
    results = evaluate([Condition(model, benchmark, corpus, m) for m in methods])
    print(compare(results))

The steps can also be called one by one. This example defines a task in HumanEval's form: the prompt is the
head of a function, and the tests are a function `check`:

    from pkg_lib import ProgramTests, Task, build_prompt, extract_solution, generate
    from pkg_lib import load_corpus, make_retriever, run_tests

    head = "def middle(numbers):\n    'Return the median.'\n"
    tests = ProgramTests("def check(f):\n    assert f([3, 1, 2]) == 2\n")
    task = Task("Mine/0", "humaneval", head, "middle", tests)
    corpus = load_corpus("source:/path/to/my/code")  # a directory of Python files
    (context,) = make_retriever("Func-BM25", corpus).retrieve([task])
    prompt = build_prompt(task, context, "chat")
    (completion,) = generate("qwen2.5-coder-0.5b-instruct", [prompt])
    solution = extract_solution(completion, task)
    (outcome,) = run_tests([task], [solution])
    print(outcome.status)  # passed, failed or not_measured
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"
RELEASED = "2026-11-27"  # the date of this version

if TYPE_CHECKING:
    from pkg_lib.analysis.comparison import compare, pass_at_k
    from pkg_lib.core.types import Context, Document, Outcome, ProgramTests, Task
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
    "ProgramTests",
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
    "ProgramTests": "core.types",
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
    """Import a public name when it is first used, after the files that register names.

    The benchmarks, methods and corpora of the papers' folders and of PKG_PLUGINS are then known, whichever
    public name is used first.
    """
    if name not in _MODULES:
        raise AttributeError(f"module 'pkg_lib' has no attribute {name!r}")
    import_module("pkg_lib.core.registry").load_plugins()
    return getattr(import_module(f"pkg_lib.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
