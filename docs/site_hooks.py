"""Let pages of the site link to files of the repository outside docs/.

A page writes such a link as GitHub reads it, for example ../results/figures/x.png. The site gets a
copy of the file, and the link is changed to that copy.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
COPIES = "repository"  # the folder of the site that holds the copies
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the linked files outside docs/ to the site.

    Args:
        files: The files of docs/.
        config: The configuration of the site.

    Returns:
        The files, with a copy of each linked file. A copied page is shown as plain text, because its
        own links would lead nowhere.
    """
    linked = set()
    for page in files.documentation_pages():
        linked.update(OUTSIDE.findall(page.content_string))
    for path in sorted(linked):
        source = str(ROOT / path)
        files.append(File.generated(config, f"{COPIES}/{_copy_name(path)}", abs_src_path=source))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change links to files outside docs/ to their copies.

    Args:
        markdown: The text of a page.
        page: The page.
        config: The configuration of the site.
        files: The files of the site.

    Returns:
        The text with the changed links.
    """
    return OUTSIDE.sub(lambda link: f"]({COPIES}/{_copy_name(link[1])}", markdown)


def _copy_name(path: str) -> str:
    """Return the name of a copy; the name of a page ends in .txt."""
    is_text = path.endswith(".md") or "." not in Path(path).name
    return f"{path}.txt" if is_text else path
