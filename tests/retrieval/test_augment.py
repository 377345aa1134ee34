"""Adding called functions to retrieved code: name resolution, and functions that are left out."""

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

MANY = 10_000  # a budget that is never reached


def graph_of(*sources: str):
    """Build the graph of some documents."""
    return build_code_graph([Document(f"d{i}", source) for i, source in enumerate(sources)])


def function_node(graph, name: str, document: int = 0) -> int:
    """Return the node of the only function with a name in a document."""
    in_document = [n for n in graph.of_type(NAME) if graph.document[n] == document]
    (name_node,) = [n for n in in_document if graph.payload(n) == name]
    return int(graph.children(name_node)[0])


def augment(graph, name: str, budget: int = MANY):
    """Augment a function of the first document."""
    node = function_node(graph, name)
    return CallResolver(graph).augment(node, graph.payload(node), budget)


def added_names(graph, augmentation) -> list[str]:
    return [graph.payload(graph.parent[node]) for node in augmentation.added]


def test_called_functions_come_first_and_the_text_runs():
    graph = graph_of(
        "def c(x):\n    return x + 1\n\ndef a(x):\n    return b(x) * 10\n",
        "def b(x):\n    return inner(x) + inner(x)\n\ndef inner(x):\n    return len([x]) + x\n",
    )
    augmentation = augment(graph, "a")
    assert added_names(graph, augmentation) == ["inner", "b"]
    assert augmentation.left_out == {}
    scope: dict = {}
    exec(augmentation.text, scope)
    assert scope["a"](3) == 80


# Sources, the names of the functions added before a, and the calls that are left out.
# In the sources, | separates functions and --- separates documents.
CALLS = [
    # Recursion and cycles end.
    (
        "def a(n): return b(n) + a(n)|def b(n): return a(n) + b(n) + c(n)|def c(n): return b(n)",
        "cb",
        {},
    ),
    # A function of the same document is preferred to others.
    ("def a(): return b()|def b(): return c()|def c(): 1---def b(): return 'there'", "cb", {}),
    # An ambiguous name is left out, but equal texts count as one function.
    (
        "def a(): return b() + c()---def b(): return 1---def b(): return 2",
        "",
        {"b": AMBIGUOUS, "c": UNKNOWN},
    ),
    ("def a(): return b()---def b(): return 1---def b(): return 1", "b", {}),
    # A function of another document must accept the arguments.
    ("def a(): return b(1, k=2)---def b(x): return 1---def b(x, *, k): return 2", "b", {}),
    # Names of builtins are resolved in the same document only.
    ("def a(): return print(abs(1))|def abs(x): return 0---def print(x): return 1", ["abs"], {}),
    # A context never contains two functions of one name.
    (
        "def a(): return b() + s(1)|def s(x): return x---def b(): return s(2)|def s(x): return -x",
        "sb",
        {"s": AMBIGUOUS},
    ),
]


@pytest.mark.parametrize(("sources", "added", "left_out"), CALLS)
def test_resolves_the_names_of_calls(sources, added, left_out):
    documents = [source.replace("|", "\n\n") + "\n" for source in sources.split("---")]
    graph = graph_of(*documents)
    augmentation = augment(graph, "a")
    assert added_names(graph, augmentation) == list(added)
    assert augmentation.left_out == left_out
    assert augmentation.text.endswith(graph.payload(function_node(graph, "a")))


def test_block_does_not_add_its_own_function():
    fib = "def fib(n):\n    if n > 1:\n        return fib(n - 1) + one()\n    return n\n"
    graph = graph_of(f"{fib}\ndef one(): return 1\n")
    block = int(graph.of_type(BLOCK)[0])
    augmentation = CallResolver(graph).augment(block, graph.payload(block), MANY)
    assert added_names(graph, augmentation) == ["one"]
    assert augmentation.left_out == {}


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
def test_ignores_local_names_and_methods_of_other_objects(source):
    augmentation = augment(graph_of(source, "def b(): return 1\n"), "a")
    assert augmentation.added == ()
    assert augmentation.left_out == {}


def test_ignores_variables_of_the_enclosing_function():
    source = "def a(b):\n    if b:\n        b()\n    def c():\n        return b()\n"
    graph = graph_of(source, "def b(): return 1\n")
    resolver = CallResolver(graph)
    for node in (*graph.of_type(BLOCK), function_node(graph, "c")):
        assert resolver.augment(int(node), graph.payload(node), MANY).added == ()


def test_adds_a_local_function_that_was_pruned_or_that_a_block_needs():
    rest = "def a(xs):\n    while xs:\n        xs = b(xs)\n    return b(xs)"
    source = rest.replace("\n", "\n    def b(x):\n        return x + 1\n", 1) + "\n"
    graph = graph_of(source, "def b(x): return 'another'\n")
    resolver = CallResolver(graph)
    function = function_node(graph, "a")
    assert resolver.augment(function, source, MANY).added == ()
    loop = int(graph.of_type(BLOCK)[2])
    for node, text in ((function, rest), (loop, graph.payload(loop))):
        augmentation = resolver.augment(node, text, MANY)
        assert augmentation.added == (function_node(graph, "b"),)
        assert augmentation.text == "def b(x):\n    return x + 1\n\n\n" + text


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


def test_adds_unambiguous_methods_of_self():
    graph = graph_of(CLASSES, "def d(x): return 'd'\n")
    augmentation = augment(graph, "a")
    assert added_names(graph, augmentation) == ["b"]
    assert augmentation.left_out == {"c": AMBIGUOUS, "b": UNKNOWN, "made_elsewhere": UNKNOWN}


def test_budget_admits_whole_functions_only():
    long = "def b():\n    return 1" + " + 1" * 50 + "\n"
    graph = graph_of("def a(): return b() + c()\n", long, "def c(): return 2\n")
    short = "def c(): return 2\n\n\n"
    augmentation = augment(graph, "a", len(short))
    assert augmentation.text == short + "def a(): return b() + c()"
    assert augmentation.left_out == {"b": TOO_LONG}
    augmentation = augment(graph, "a", len(short) - 1)
    assert augmentation.left_out == {"b": TOO_LONG, "c": TOO_LONG}


@pytest.mark.parametrize("text", ["def a(:", "", "x = '\0'"])
def test_does_not_change_text_that_does_not_parse(text):
    graph = graph_of("def a(): pass\n")
    node = function_node(graph, "a")
    assert CallResolver(graph).augment(node, text, MANY).text == text


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
def test_decides_whether_a_function_accepts_a_call(parameters, call, expected):
    function = ast.parse(f"def f({parameters}): pass").body[0]
    expression = ast.parse(call).body[0].value
    assert accepts_call(function.args, expression) is expected


@pytest.mark.slow
def test_augments_every_function_of_the_textbook_within_the_budget(textbook):
    graph = textbook[1]
    resolver = CallResolver(graph)
    number_added = 0
    for node in graph.of_type(IMPL):
        text = graph.payload(node)
        augmentation = resolver.augment(int(node), text, 800)
        added = augmentation.added
        assert augmentation.text.endswith(text)
        head = augmentation.text.removesuffix(text)
        assert len(head) <= 800
        if added:
            assert parse_fragment(head) is not None
        assert int(node) not in added
        assert len(set(added)) == len(added)
        for name in added_names(graph, augmentation):
            assert f"{name}(" in augmentation.text
        number_added += len(added)
    assert number_added > 100


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
    documents = [Document(f"d{i}", source) for i, source in enumerate(SOURCES)]
    return Knowledge(documents, embedder)


def test_retriever_adds_called_functions_and_names_their_source(knowledge):
    retriever = BlockPKG(knowledge, calls=200)
    (context,) = retriever.retrieve([TASK])
    assert context.source == "d0:2-4 calls d1:1-3"
    assert context.pruned == ""
    assert context.text.startswith("def divides(divisor, number):\n    if number")
    assert retriever.augmented["T/0"].left_out == {}
    (short,) = BlockPKG(knowledge, calls=20).retrieve([TASK])
    assert short.source == "d0:2-4"
    with pytest.raises(UserError, match="calls is -1"):
        FuncPKG(knowledge, calls=-1)


def test_augmented_contexts_stay_within_the_limit(textbook, embedder):
    knowledge = Knowledge(textbook[0], embedder)
    knowledge.graph = textbook[1]
    names = textbook[1].payloads(textbook[1].of_type(NAME)[::60])
    tasks = [Task(f"T/{i}", "made-up", name, "f") for i, name in enumerate(names)]
    for calls in (0, 1500, MANY):
        contexts = FuncPKG(knowledge, calls=calls).retrieve(tasks)
        assert max(len(context.text) for context in contexts) <= CONTEXT_CHARS


def test_a_fragment_with_one_blank_of_indent_parses_despite_a_string_in_column_0():
    tree = parse_fragment(' a = """\nb"""\n c = 1\n')
    assert tree is not None
