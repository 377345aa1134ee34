"""One query, step by step (Section 3.2): tables and the tree of `retrieval.explain`.

The nodes nearest to the query are ranked. The best one loses the branch whose removal brings the rest
closest to the query. What remains is the context.
"""

from IPython.display import HTML

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import (
    DASH,
    render,
)
from pkg_lib.graph.schema import (
    NODE_TYPES,
    Graph,
)
from pkg_lib.retrieval.explain import (
    Explanation,
    explain,
    first_line,
)
from pkg_lib.retrieval.knowledge import Knowledge

# Pruning -> how it chooses among the whole node and the node without each branch.
PRUNING_NOTES = {
    "guarded": "the whole node competes",
    "unpruned": "here it stays whole",
    "paper-literal": "a branch is always removed if there is one",
}


def function_of(
    graph: Graph,
    node: int,
) -> str:
    """Find the function that a node belongs to.

    Args:
        graph: The graph of the node.
        node: An IMPL or BLOCK node.

    Returns:
        The name of the function.
    """
    while graph.parent[node] >= 0:
        node = int(graph.parent[node])
    return graph.payload(node)


def lines_of(
    graph: Graph,
    node: int,
) -> str:
    """Print the lines of a node.

    Args:
        graph: The graph of the node.
        node: An IMPL or BLOCK node.

    Returns:
        Its first and last line in its document, such as "3-7".
    """
    return f"{graph.first[node]}-{graph.last[node]}"


def branches_of_best(explained: Explanation) -> list[int]:
    """List the direct branches of the best node.

    Args:
        explained: What a method did for a query.

    Returns:
        The nodes of the branches.
    """
    return [int(node) for node in explained.graph.branches(explained.nodes[0])]


def nearest_table(
    explained: Explanation,
    query: str,
    unit: str,
) -> ResultTable:
    """Show the ranked nodes with their cosines to the query.

    Args:
        explained: What a method did for the query.
        query: The query.
        unit: What is retrieved.

    Returns:
        One row per node, best first.
    """
    graph = explained.graph
    rows = {}
    ranked = zip(explained.nodes, explained.cosines, strict=True)
    for rank, (node, cosine) in enumerate(ranked, 1):
        function = function_of(graph, node)
        rows[str(rank)] = (f"{cosine:.3f}", function, first_line(graph, node), graph.where(node))
    columns = ["cosine", "function", "first line", "where"]
    return ResultTable.of(f"The nearest {unit}s", rows, columns, "rank", f"Query: {query}")


def pruning_tree(explained: Explanation) -> str:
    """Write the best node with all its blocks; the pruned branch is struck out.

    Args:
        explained: What a method did for a query.

    Returns:
        A fragment of HTML.
    """
    graph, best = explained.graph, explained.nodes[0]
    depth = {best: 0}
    removed = {explained.removed}
    below = []
    for node in graph.descendants(best):
        parent = int(graph.parent[node])
        depth[node] = depth[parent] + 1
        if parent in removed:
            removed.add(node)
        below.append(
            {
                "type": NODE_TYPES[graph.type[node]],
                "lines": lines_of(graph, node),
                "removed": node in removed,
                "node": node,
                "depth": depth[node],
                "line": first_line(graph, node),
            }
        )
    head = {
        "line": first_line(graph, best),
        "where": graph.where(best),
    }
    return render("explained_tree.html.j2", explained=explained, best=head, below=below)


def branches_table(
    explained: Explanation,
    pruning: str,
) -> ResultTable:
    """Show the options of pruning: the cosine of what remains without each branch, and of the whole.

    Args:
        explained: What a method did for a query.
        pruning: How it pruned.

    Returns:
        One row per branch; the whole node comes last.
    """
    graph, best = explained.graph, explained.nodes[0]
    rows = {}
    for branch in branches_of_best(explained):
        effect = "removed" if branch == explained.removed else DASH
        cosine = f"{explained.without[branch]:.3f}"
        rows[lines_of(graph, branch)] = (first_line(graph, branch), cosine, effect)
    kept = "kept whole" if explained.removed < 0 else DASH
    rows[DASH] = ("the whole node", f"{explained.without[-1]:.3f}", kept)
    columns = ["branch", "cosine without it", "pruning"]
    title = f"Branches of {function_of(graph, best)}"
    note = f"The highest cosine wins; {PRUNING_NOTES[pruning]}."
    return ResultTable.of(title, rows, columns, "lines", note)


def context_html(explained: Explanation) -> str:
    """Write the context with its source and with what was added or left out.

    Args:
        explained: What a method did for a query.

    Returns:
        A fragment of HTML.
    """
    return render("explained_context.html.j2", explained=explained)


def query_page(
    knowledge: Knowledge,
    query: str,
    unit: str,
    pruning: str,
    calls: int,
) -> HTML:
    """Show all steps of one query.

    Args:
        knowledge: A corpus of code.
        query: What the code should do.
        unit: "function" or "block".
        pruning: A way of pruning.
        calls: How many characters of called functions to put before the unit.

    Returns:
        The steps, for a notebook to display.

    Raises:
        UserError: The query is empty, a name is unknown, or the corpus has no such units.
    """
    explained = explain(knowledge, query, unit, pruning, calls)
    parts = [
        nearest_table(explained, query, unit).html(),
        pruning_tree(explained),
        branches_table(explained, pruning).html(),
        context_html(explained),
    ]
    return HTML("".join(parts))


def query_findings(
    explained: Explanation,
    unit: str,
) -> list[str]:
    """Say which node was found, and what was removed from and added to it.

    Args:
        explained: What a method did for a query.
        unit: What is retrieved.

    Returns:
        Sentences.
    """
    graph, best, removed = explained.graph, explained.nodes[0], explained.removed
    branches = len(branches_of_best(explained))
    place = f"{graph.where(best)} ({function_of(graph, best)})"
    sentences = [f"The nearest {unit} is {place}, cosine {explained.cosines[0]:.3f}."]
    if removed < 0:
        sentences.append(f"Nothing was removed; it has {branches} branches.")
    else:
        before, after = explained.without[-1], explained.without[removed]
        sentences.append(
            f"Of {branches} branches, lines {lines_of(graph, removed)} were removed: the cosine went from "
            f"{before:.3f} to {after:.3f}."
        )
    if explained.called.added:
        places = ", ".join(graph.where(node) for node in explained.called.added)
        sentences.append(f"Called functions put before it: {places}.")
    return sentences
