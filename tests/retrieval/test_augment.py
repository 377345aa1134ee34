"""Called functions beside retrieved code: which one a name means, what is left out."""

from __future__ import annotations

import ast

import pytest

from pkg_lib.core.types import Document, Task, UserError
from pkg_lib.data.corpora import CONTEXT_CHARS
from pkg_lib.graph.schema import BLOCK, IMPL, NAME, build_code_graph
from pkg_lib.retrieval.augment import (
    AMBIGUOUS,
    TOO_LONG,
    UNKNOWN,
    CallResolver,
    accepts_call,
    parse_fragment,
)
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.retrievers import BlockPKG, FuncPKG

MANY = 10_000


def graph_of(*sources: str):
    return build_code_graph([Document(f"d{i}", s) for i, s in enumerate(sources)])


def impl(graph, name: str, document: int = 0) -> int:
    (found,) = (
        n for n in graph.of_type(NAME) if graph.payload(n) == name and graph.document[n] == document
    )
    return int(graph.children(found)[0])


def augmented(graph, name: str, budget: int = MANY):
    node = impl(graph, name)
    return CallResolver(graph).augment(node, graph.payload(node), budget)


def names(graph, found) -> list[str]:
    return [graph.payload(graph.parent[i]) for i in found.added]


def test_what_is_called_comes_first_and_the_text_runs():
    graph = graph_of(
        "def c(x):\n    return x + 1\n\ndef a(x):\n    return b(x) * 10\n",
        "def b(x):\n    return inner(x) + inner(x)\n\ndef inner(x):\n    return len([x]) + x\n",
    )
    augmentation = augmented(graph, "a")
    assert names(graph, augmentation) == ["inner", "b"] and augmentation.left_out == {}
    scope: dict = {}
    exec(augmentation.text, scope)
    assert scope["a"](3) == 80


MEANT = [  # sources: functions of a document a line, documents apart by ---; names put before a; what is left out
    # Recursion and cycles end.
    (
        "def a(n): return b(n) + a(n)|def b(n): return a(n) + b(n) + c(n)|def c(n): return b(n)",
        "cb",
        {},
    ),
    # The same document goes before the others.
    ("def a(): return b()|def b(): return c()|def c(): 1---def b(): return 'there'", "cb", {}),
    # A name of several functions is left out, but equal texts are one function.
    (
        "def a(): return b() + c()---def b(): return 1---def b(): return 2",
        "",
        {"b": AMBIGUOUS, "c": UNKNOWN},
    ),
    ("def a(): return b()---def b(): return 1---def b(): return 1", "b", {}),
    # Only what takes the arguments comes from another document.
    ("def a(): return b(1, k=2)---def b(x): return 1---def b(x, *, k): return 2", "b", {}),
    # Builtins are looked for in the same document only.
    ("def a(): return print(abs(1))|def abs(x): return 0---def print(x): return 1", ["abs"], {}),
    # Two namesakes never stand in one context.
    (
        "def a(): return b() + s(1)|def s(x): return x---def b(): return s(2)|def s(x): return -x",
        "sb",
        {"s": AMBIGUOUS},
    ),
]


@pytest.mark.parametrize(("sources", "added", "left_out"), MEANT)
def test_which_function_a_name_means(sources, added, left_out):
    graph = graph_of(*(source.replace("|", "\n\n") + "\n" for source in sources.split("---")))
    augmentation = augmented(graph, "a")
    assert (names(graph, augmentation), augmentation.left_out) == (list(added), left_out)
    assert augmentation.text.endswith(graph.payload(impl(graph, "a")))


def test_a_block_does_not_bring_the_function_around_it():
    fib = "def fib(n):\n    if n > 1:\n        return fib(n - 1) + one()\n    return n\n"
    graph = graph_of(f"{fib}\ndef one(): return 1\n")
    block = int(graph.of_type(BLOCK)[0])
    augmentation = CallResolver(graph).augment(block, graph.payload(block), MANY)
    assert names(graph, augmentation) == ["one"] and augmentation.left_out == {}


@pytest.mark.parametrize(
    "source",
    [
        "def a(b): return b()\n",
        "def a(xs): return [b() for b in xs]\n",
        "def a():\n    b = 1\n    return b()\n",
        "def a():\n    from m import b\n    return b()\n",
        "def a():\n    import x as b\n    return b()\n",
        "def a():\n    class b: pass\n    return b()\n",
        "def a():\n    for b in (): b()\n",
        "def a():\n    with x as b: b()\n",
        "def a():\n    try: pass\n    except E as b: b()\n",
        "def a():\n    match x:\n        case [*b]: b()\n",
        "def a():\n    match x:\n        case {1: 2, **b}: b()\n",
        "def a(): return lambda b: b()\n",
        "def a(): return (b := x) and b()\n",
        "def a(x): return x.b() + x.y.b() + super().b() + x[0]()\n",
        "def a(): return 'b()'  # b()\n",
        "def a(): return map(b, [])\n",
    ],
)
def test_what_is_bound_here_or_a_method_of_something_is_not_looked_for(source):
    found = augmented(graph_of(source, "def b(): return 1\n"), "a")
    assert found.added == () and found.left_out == {}


def test_a_variable_of_the_function_around_a_block_or_a_local_function():
    source = "def a(b):\n    if b:\n        b()\n    def c():\n        return b()\n"
    graph = graph_of(source, "def b(): return 1\n")
    for v in (*graph.of_type(BLOCK), impl(graph, "c")):
        assert CallResolver(graph).augment(int(v), graph.payload(v), MANY).added == ()


def test_a_local_function_that_pruning_took_away_or_a_block_needs():
    rest = "def a(xs):\n    while xs:\n        xs = b(xs)\n    return b(xs)"
    source = rest.replace("\n", "\n    def b(x):\n        return x + 1\n", 1) + "\n"
    graph = graph_of(source, "def b(x): return 'another'\n")
    whole = impl(graph, "a")
    assert CallResolver(graph).augment(whole, source, MANY).added == ()
    loop = int(graph.of_type(BLOCK)[2])
    for node, text in ((whole, rest), (loop, graph.payload(loop))):
        found = CallResolver(graph).augment(node, text, MANY)
        assert found.added == (impl(graph, "b"),)
        assert found.text == "def b(x):\n    return x + 1\n\n\n" + text


CLASSES = """\
class A:
    def a(self): return self.b() + self.c() + b() + self.a() + self.made_elsewhere()
    def b(self): return 1
    def c(self): return 2
class B:
    def c(self): return 3
    @staticmethod
    def d(x): return 4
"""


def test_methods_of_self():
    graph = graph_of(CLASSES, "def d(x): return 'd'\n")
    found = augmented(graph, "a")
    assert names(graph, found) == ["b"]
    assert found.left_out == {"c": AMBIGUOUS, "b": UNKNOWN, "made_elsewhere": UNKNOWN}


def test_the_budget_counts_whole_functions():
    long = "def b():\n    return 1" + " + 1" * 50 + "\n"
    graph = graph_of("def a(): return b() + c()\n", long, "def c(): return 2\n")
    c = "def c(): return 2\n\n\n"
    found = augmented(graph, "a", len(c))
    assert found.text == c + "def a(): return b() + c()" and found.left_out == {"b": TOO_LONG}
    assert augmented(graph, "a", len(c) - 1).left_out == {"b": TOO_LONG, "c": TOO_LONG}


@pytest.mark.parametrize("text", ["def a(:", "", "x = '\0'"])
def test_broken_texts_stay_as_they_are(text):
    graph = graph_of("def a(): pass\n")
    assert CallResolver(graph).augment(impl(graph, "a"), text, MANY).text == text


@pytest.mark.parametrize(
    ("parameters", "call", "expected"),
    [
        ("", "f()", True),
        ("", "f(1)", False),
        ("x", "f()", False),
        ("x, y=1", "f(1)", True),
        ("x, y=1", "f(1, 2, 3)", False),
        ("x, y", "f(1, y=2)", True),
        ("x, /", "f(x=1)", False),
        ("*xs", "f(1, 2)", True),
        ("*, k", "f()", False),
        ("*, k=1", "f()", True),
        ("**k", "f(z=1)", True),
        ("x", "f(*y)", True),
        ("x", "f(**y)", True),
    ],
)
def test_which_calls_a_function_accepts(parameters, call, expected):
    function = ast.parse(f"def f({parameters}): pass").body[0]
    assert accepts_call(function.args, ast.parse(call).body[0].value) is expected


@pytest.mark.slow
def test_the_textbook_within_the_budget(textbook):
    """Of a real corpus: the budget holds, the text is kept, what is added parses and is called."""
    graph = textbook[1]
    calls, added = CallResolver(graph), 0
    for v in map(int, graph.of_type(IMPL)):
        text = graph.payload(v)
        found = calls.augment(v, text, 800)
        assert found.text.endswith(text) and len(found.text) - len(text) <= 800
        head = found.text[: len(found.text) - len(text)]
        assert found.added == () or parse_fragment(head) is not None
        assert v not in found.added and len(set(found.added)) == len(found.added)
        assert all(f"{graph.payload(graph.parent[i])}(" in found.text for i in found.added)
        added += len(found.added)
    assert added > 100


IS_PRIME = """def is_prime(number):
    for divisor in range(2, number):
        if divides(divisor, number):
            return 0
"""
SOURCES = (
    IS_PRIME,
    "def divides(divisor, number):\n    if number % divisor == 0:\n        return True\n",
    IS_PRIME,
    "def read_lines(path):\n    with open(path) as file:\n        return file.readlines()\n",
)
TASK = Task("T/0", "made-up", "is this number prime: divisor", "f")


@pytest.fixture
def knowledge(embedder):
    return Knowledge([Document(f"d{i}", s) for i, s in enumerate(SOURCES)], embedder)


def test_calls_are_added_and_named(knowledge):
    retriever = BlockPKG(knowledge, calls=200)
    (context,) = retriever.retrieve([TASK])
    assert context.source == "d0:2-4 calls d1:1-3" and context.pruned == ""
    assert context.text.startswith("def divides(divisor, number):\n    if number")
    assert retriever.augmented["T/0"].left_out == {}
    (short,) = BlockPKG(knowledge, calls=20).retrieve([TASK])
    assert short.source == "d0:2-4"
    with pytest.raises(UserError, match="calls is -1"):
        FuncPKG(knowledge, calls=-1)


def test_contexts_never_grow_over_the_limit(textbook, embedder):
    knowledge = Knowledge(textbook[0], embedder)
    knowledge.graph = textbook[1]
    names = textbook[1].payloads(textbook[1].of_type(NAME)[::60])
    tasks = [Task(f"T/{i}", "made-up", name, "f") for i, name in enumerate(names)]
    for calls in (0, 1500, MANY):
        found = FuncPKG(knowledge, calls=calls).retrieve(tasks)
        assert max(len(c.text) for c in found) <= CONTEXT_CHARS
