"""Write the README and the documentation of the repository as pages of the report.

A browser shows a link to a Markdown file as plain text. The report therefore links to a page for each file.
"""

import os
import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from pkg_lib.analysis.tables import render
from pkg_lib.core.limits import MAX_TEXT_BYTES
from pkg_lib.core.reading import contents
from pkg_lib.core.store import advice_for, write_text

# Files that every page links to -> what the link says. Files that these link to become pages as well.
STARTS = {
    "README.md": "README",
    "docs/index.md": "documentation",
    "results/README.md": "about these results",
}
FOLDER = "docs"  # below the report's folder "site"
# The line of mkdocstrings that stands for the documentation of an object.
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
PARSER = MarkdownIt("commonmark").enable("table")


def page_name(path: str) -> str:
    """Return the name of a file's page.

    Args:
        path: Path of the file in the repository, such as "docs/findings.md".

    Returns:
        Text such as "docs-findings.html".
    """
    return path.removesuffix(".md").replace("/", "-").lower() + ".html"


def links(site: str) -> dict[str, str]:
    """Return what each page of the report links to.

    Args:
        site: Relative path of the report's folder "site", with "/" at its end.

    Returns:
        Text of the link by relative path of the page.
    """
    return {f"{site}{FOLDER}/{page_name(path)}": text for path, text in STARTS.items()}


def build(repository: Path, site: Path, release: str) -> set[Path]:
    """Write a page for each of STARTS, and for each Markdown file that a written page links to.

    Args:
        repository: Root of a checkout.
        site: The report's folder "site".
        release: What the footer says that the pages were made with.

    Returns:
        The pages.

    Raises:
        DamagedFileError: A file cannot be read, or is too large.
    """
    root = repository.resolve()
    waiting = [path for path in STARTS if (root / path).is_file()]
    written: dict[str, Path] = {}
    while waiting:
        path = waiting.pop()
        if path in written:
            continue
        page = site / FOLDER / page_name(path)
        document = _Document(root, path, page.parent)
        text = render(
            "document.html.j2",
            root="../../",
            title=document.title,
            body=document.html,
            release=release,
        )
        write_text(page, text)
        written[path] = page
        waiting += document.linked
    return set(written.values())


class _Document:
    """A Markdown file as HTML.

    Attributes:
        title: Text of its first heading.
        linked: Markdown files of the repository that it links to.
        html: Its HTML, with links that lead from the folder of the pages.
    """

    def __init__(self, root: Path, path: str, folder: Path) -> None:
        """Read a file.

        Args:
            root: Root of the repository, without symbolic links.
            path: Path of the file in it.
            folder: The folder of the pages.

        Raises:
            DamagedFileError: The file cannot be read, or is too large.
        """
        self._root = root
        self._source = root / path
        self._folder = folder
        self.title = path
        self.linked: list[str] = []
        data = contents(self._source, advice_for, MAX_TEXT_BYTES)
        text = DIRECTIVE.sub(r"- `\1`", data.decode("utf8", "replace"))
        tokens = PARSER.parse(text)
        self._add_anchors(tokens)
        for token in tokens:
            for inline in token.children or []:
                self._change_link(inline)
        html = PARSER.renderer.render(tokens, PARSER.options, {})
        html = html.replace("<table>", '<div class="scroll" tabindex="0"><table>')
        html = html.replace("</table>", "</table></div>")
        self.html = Markup(html.replace("<pre>", '<pre tabindex="0">'))

    def _add_anchors(self, tokens: list[Token]) -> None:
        """Give each heading the anchor that GitHub gives it."""
        headings = []
        for token, content in pairwise(tokens):
            if token.type == "heading_open":
                anchor = NOT_IN_ANCHORS.sub("", content.content.lower()).replace(" ", "-")
                token.attrSet("id", anchor)
                headings.append(content.content)
        if headings:
            self.title = headings[0]

    def _change_link(self, token: Token) -> None:
        """Let a link or a picture lead to the page of its file, or to the file."""
        name = {"link_open": "href", "image": "src"}.get(token.type)
        if not name:
            return
        target = urlsplit(str(token.attrs[name]))
        if target.scheme or not target.path:
            return
        file = (self._source.parent / unquote(target.path)).resolve()
        if not file.is_relative_to(self._root):
            return
        path = file.relative_to(self._root).as_posix()
        if file.suffix == ".md" and file.is_file():
            self.linked.append(path)
            place = page_name(path)
        else:
            place = os.path.relpath(file, self._folder.resolve())
        token.attrSet(name, f"{place}#{target.fragment}" if target.fragment else place)
