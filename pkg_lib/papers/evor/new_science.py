"""The EVOR authors' library newScience, the library of Scipy-M (Section 2.4): its texts and documents.

PKG_SCIPYM_DIR names the folder `updated_libraries/ScipyM` of github.com/xlang-ai/arks. The library is other
people's code. It is read here as text, parsed by `ast`, and sent to the sandbox as text; only there it is
imported.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from textwrap import dedent

from pkg_lib.core.data_folders import data_folder, how_to_provide
from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.core.reading import shown
from pkg_lib.core.source_tree import SourceTree, ends_with, find, python_texts
from pkg_lib.core.types import BenchmarkMissingError, UserError
from pkg_lib.papers.evor.templates import PROGRAMS

VARIABLE = "PKG_SCIPYM_DIR"
NAME = "newScience"
ALIAS = "ns"  # what documents and prompts import it as
MAX_BYTES = 2**20  # of all its files, since every job holds them; the authors' have 20 kB
SHOWN = f"the folder updated_libraries/ScipyM of github.com/xlang-ai/arks, which holds {NAME}"
ADVICE = f"clone github.com/xlang-ai/arks and {how_to_provide(VARIABLE, SHOWN)}"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_library() -> dict[str, str]:
    """Read the Python files of the library.

    Returns:
        Text of each file by its path below the package's folder.

    Raises:
        BenchmarkMissingError: No directory is named, or it does not hold the library.
        UserError: A file is too large or no Python.
    """
    folder = data_folder(VARIABLE)
    if folder is None:
        raise BenchmarkMissingError(f"{NAME} is not available: {ADVICE}")
    root = folder / NAME
    if not (root / "__init__.py").is_file():
        raise BenchmarkMissingError(f"{shown(str(folder))} holds no {NAME}/__init__.py: {ADVICE}")
    tree: SourceTree = find(root, ends_with(".py"), (), MAX_BYTES, MAX_BYTES)
    files = dict(python_texts(tree))
    left_out = tree.skipped.one_line_summary()
    if left_out:
        raise UserError(f"{shown(str(root))} cannot be read whole ({left_out}): {ADVICE}")
    for path, text in files.items():
        if parsed_or_none(text) is None:
            raise UserError(f"{shown(str(root))}: {path} is not Python: {ADVICE}")
    return files


def importing_program(files: Mapping[str, str]) -> str:
    """Return a program that makes the library importable. It runs in the sandbox before another one.

    Args:
        files: What `read_library` returned.
    """
    texts = {}
    for path, text in files.items():
        place = PurePosixPath(NAME, path).with_suffix("")
        is_package = place.name == "__init__"
        parts = place.parent.parts if is_package else place.parts
        texts[".".join(parts)] = (is_package, text)
    return PROGRAMS["texts"].format(texts=texts)


def make_documents(files: Mapping[str, str]) -> dict[str, str]:
    """Make the documents of the library's public functions, classes and methods.

    The authors' library has no docstrings and no comments. A document therefore consists of

    - the signature: of a class that of its `__init__`, of a method without `self`,
    - the docstring, for libraries that have one,
    - a sentence by rule: which functions of scipy the body calls, and which class of scipy a class extends,
    - the body as it is written: of a class that of its `__init__`.

    Each folder of the library exports all names of its modules. So the documents name folder and function.

    Args:
        files: What `read_library` returned.

    Returns:
        Dotted name -> document, by file and line.
    """
    documents = {}
    for path, text in files.items():
        place = ".".join([ALIAS, *PurePosixPath(path).parent.parts])
        tree = ast.parse(text)
        module_imports = _imported_names(tree.body)
        for node in tree.body:
            if isinstance(node, Function):
                described = [(f"{place}.{node.name}", _function(node, text, module_imports))]
            elif isinstance(node, ast.ClassDef):
                described = list(_class(node, text, module_imports))
                described = [(f"{place}.{name}", document) for name, document in described]
            else:
                continue
            for name, document in described:
                if not _is_private(name):
                    documents[name] = name + document
    return documents


def _is_private(name: str) -> bool:
    """Whether a function is not for users. Operators such as `__add__` are."""
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


def _class(
    node: ast.ClassDef,
    text: str,
    imports: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """Yield the names and documents, without the names, of a class and of its methods."""
    bases = [_original(base, imports) for base in node.bases]
    extended = [base for base in bases if base.startswith("scipy.")]
    sentence = f"Extends {', '.join(extended)}." if extended else ""
    about = ast.get_docstring(node) or ""
    methods = [child for child in node.body if isinstance(child, Function)]
    constructors = [method for method in methods if method.name == "__init__"]
    if constructors:
        document = _function(constructors[0], text, imports, True, (about, sentence))
    else:
        document = _joined("()", about, sentence)
    yield node.name, document
    for method in methods:
        if method.name != "__init__":
            yield f"{node.name}.{method.name}", _function(method, text, imports, True)


def _function(
    node: Function,
    text: str,
    imports: Mapping[str, str],
    is_method: bool = False,
    about: tuple[str, ...] = (),
) -> str:
    """The document of a function without its name; `about` comes after the signature."""
    known = dict(imports) | _imported_names(ast.walk(node))
    called = []
    for child in ast.walk(node):
        if isinstance(child, ast.Call):
            name = _original(child.func, known)
            if name.startswith("scipy."):
                called.append(name)
    names = ", ".join(dict.fromkeys(called))
    return _joined(
        _signature(node, is_method),
        *about,
        ast.get_docstring(node) or "",
        f"Calls {names}." if names else "",
        _body(node, text),
    )


def _joined(signature: str, *paragraphs: str) -> str:
    """The signature and the paragraphs that are not empty."""
    return "\n\n".join([signature, *filter(None, paragraphs)])


def _signature(node: Function, is_method: bool) -> str:
    """The parameters in brackets; "" for a property."""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if "property" in decorators:
        return ""
    arguments = ast.unparse(node.args)
    if is_method and "staticmethod" not in decorators:
        arguments = arguments.partition(",")[2].strip()  # self or cls, which has no annotation
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({arguments}){returned}"


def _body(node: Function, text: str) -> str:
    """The lines of a function below its signature and its docstring."""
    statements = node.body[1:] if ast.get_docstring(node) else node.body
    if not statements:
        return ""
    lines = text.split("\n")[statements[0].lineno - 1 : node.end_lineno]
    return dedent("\n".join(line.rstrip() for line in lines)).strip()


def _imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What the names that import statements define stand for, by name."""
    names = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _original(node: ast.expr, imports: Mapping[str, str]) -> str:
    """The full name of what a dotted expression stands for; "" for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(imports.get(node.id, node.id))
    return ".".join(reversed(parts))
