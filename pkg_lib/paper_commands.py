"""The commands that one paper needs: `pkg-lib pkg`, `cast`, `dkb` and `evor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pkg_lib.core.reading import absolute
from pkg_lib.core.store import results_dir
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.corpora import DEFAULT
from pkg_lib.evaluation import study
from pkg_lib.options import (
    AS_MODEL,
    BENCHMARK_HELP,
    Corpus,
    Limit,
    Many,
    Model,
    OutputFile,
    Processes,
    Slots,
    absolute_corpus,
    arg,
    log_lines,
    opt,
    say,
)

# Imports that take long are inside the commands, so that each says at once what it does.
pkg_app = typer.Typer(
    rich_markup_mode=None, help="Programming Knowledge Graphs: docstrings, JSON and topics."
)
cast_app = typer.Typer(
    rich_markup_mode=None, help="cAST: chunks of source code, and completion in repositories."
)
dkb_app = typer.Typer(
    rich_markup_mode=None, help="DKB: type graphs of Java source, and questions about it."
)
evor_app = typer.Typer(rich_markup_mode=None, help="EVOR: libraries that no model knows.")
APPS = {"pkg": pkg_app, "cast": cast_app, "dkb": dkb_app, "evor": evor_app}
# Commands that were renamed when they became subcommands.
OLD_NAMES = {
    "enhance": "pkg enhance",
    "structure": "pkg structure",
    "topics": "pkg topics",
    "chunk": "cast chunk",
    "repo-tasks": "cast prepare",
    "make-tasks": "cast make-tasks",
    "crosscodeeval": "cast crosscodeeval",
    "typegraph": "dkb typegraph",
    "repo-qa": "dkb ask",
    "make-library": "evor make-library",
}


@pkg_app.command()
def enhance(
    corpus: Corpus = DEFAULT,
    model: Model = study.MODEL,
    count: Annotated[int, opt("Maximum number of functions.", least=1)] = 500,
    every: Annotated[bool, opt("Prompt for all functions; ignores --count.", "--all")] = False,
    benchmark: Annotated[str, opt("Also measure how retrieval changes for this benchmark.")] = "",
    slots: Slots = None,
) -> None:
    """Let a model write docstrings for functions without one.

    The model must support fill-in-the-middle. Run the command again to continue after an
    interruption. The method `Func-PKG, enhanced` retrieves from the documented functions.
    """
    from pkg_lib.papers.pkg import enhancer

    corpus, results = absolute_corpus(corpus), results_dir()
    if benchmark:
        load_benchmark(benchmark)  # a misspelled name is reported before hours of work
    maximum = None if every else count
    log = enhancer.enhance(corpus, model, maximum, results, slots=slots, announce=typer.echo)
    say(log_lines(log))
    if benchmark:
        say(log_lines(enhancer.measure_change(corpus, model, benchmark, results)))


@pkg_app.command()
def structure(
    corpus: Corpus = "python-docs",
    structurer: Annotated[str, opt("How: headings, docstrings or llm.")] = "headings",
    model: Annotated[str, opt("The model that writes the JSON, for llm.", **AS_MODEL)] = "",
    limit: Limit = None,
    long_documents: Annotated[
        str,
        opt(
            "For llm, documents that exceed one prompt: split (by section) or skip. "
            "Default: skip for python-docs.",
            show_default=False,
        ),
    ] = "",
    slots: Slots = None,
) -> None:
    """Turn a text corpus into JSON, from which graphs are built.

    Run the command again to continue after an interruption. Each answer is stored as it arrives.
    """
    from pkg_lib.data import structuring

    log = structuring.structure(
        corpus,
        structurer,
        results_dir(),
        model,
        limit,
        long_documents=long_documents,
        slots=slots,
    )
    say(log_lines(log))


@pkg_app.command()
def topics(
    model: Model = study.MODEL,
    benchmark: Annotated[str, opt(BENCHMARK_HELP)] = "mbpp",
    limit: Limit = None,
    grouping: Annotated[
        str, opt("own: the model names the topics; fixed: they are given.")
    ] = "fixed",
    slots: Slots = None,
) -> None:
    """Let a model sort a benchmark's tasks into topics.

    The model names a fine category for each task, and then a topic for each category. With
    --grouping own, it first names up to ten topics for its categories, as in the PKG paper. With
    fixed, the topics are the ten of the rules. The command reports the agreement with the topics
    by rules. Run it again to continue after an interruption.
    """
    from pkg_lib.papers.pkg import model_topics
    from pkg_lib.papers.pkg.topics import topics_of

    results = results_dir()
    log = model_topics.label_tasks(benchmark, model, results, limit, grouping=grouping, slots=slots)
    say(log_lines(log))
    table = model_topics.agreement_table(results, benchmark, topics_of(benchmark, results))
    if table:
        typer.echo(table.frame.T.to_string())


@cast_app.command()
def chunk(
    path: Annotated[Path | None, arg("A source file, or a directory of them.")] = None,
    mode: Annotated[str, opt("lossless, or as-published (loses some text).")] = "lossless",
    method: Annotated[
        str, opt("How: cast, algorithm-1, split-only, fixed-size or sliding-window.")
    ] = "cast",
    max_size: Annotated[
        int, opt("Maximum characters of a chunk, without white space.", least=1)
    ] = 2000,
    lines: Annotated[
        int | None,
        opt("Lines in a chunk. Default: fixed-size 60, sliding-window 20.", least=1),
    ] = None,
    step: Annotated[int, opt("Lines between the starts of sliding windows.", least=1)] = 10,
    chunk_overlap: Annotated[
        int, opt("As published: nodes that a chunk shares with each neighbour.", least=0)
    ] = 0,
    chunk_expansion: Annotated[
        bool,
        opt("As published: a header with file, classes and functions.", "--chunk-expansion"),
    ] = False,
    language: Annotated[str, opt("The language, if the file name does not show it.")] = "",
    processes: Processes = 1,
    join: Annotated[
        bool, opt("Read chunks from standard input, and write the file.", "--join")
    ] = False,
) -> None:
    """Split source files into chunks, one JSON line each.

    A summary of what was kept, lost or skipped goes to standard error.
    """
    from pkg_lib.chunking import chunk_jsonl
    from pkg_lib.chunking.chunker import LINES, WINDOW_LINES, Chunker

    if join:
        chunk_jsonl.join_chunks(sys.stdin.buffer, sys.stdout.buffer)
        return
    if path is None:
        raise UserError(
            "chunk needs a file or a directory; or --join, with chunks on standard input"
        )
    chunker = Chunker(
        method,
        mode,
        max_size,
        lines or (WINDOW_LINES if method == "sliding-window" else LINES),
        chunk_overlap,
        chunk_expansion,
        step,
    )
    arguments = path, chunker, language or None, sys.stdout.buffer, processes
    typer.echo(str(chunk_jsonl.write_chunks(*arguments)), err=True)


@cast_app.command()
def prepare(
    steps: Annotated[Many, arg("Any of tasks, chunks, retrieval. Default: all.")] = None,
    benchmark: Annotated[
        str, opt("For the step retrieval: packages, repoeval or swebench-lite.")
    ] = "",
    ranker: Annotated[Many, opt("For the step retrieval: BM25 or MiniLM; repeatable.")] = None,
    chunking: Annotated[
        Many,
        opt("For the step retrieval: cast+expansion, cast+overlap, sliding-window; repeatable."),
    ] = None,
) -> None:
    """Prepare tasks from the functions of pinned packages.

    Also measures chunks and retrieval. Then generate and test with `run --benchmark packages`.
    """
    from pkg_lib.papers.cast import cast_steps

    cast_steps.run(
        results_dir() / "repo_tasks",
        typer.echo,
        steps or [],
        benchmark,
        ranker or [],
        chunking or [],
    )


@cast_app.command("make-tasks")
def make_tasks(
    directory: Annotated[
        Path, arg("The directory from which the package and its tests are imported.")
    ],
    source: Annotated[
        list[str], opt("A package or file whose functions become tasks; repeatable.")
    ],
    tests: Annotated[list[str], opt("A directory or file with tests; repeatable.")],
    output: Annotated[Path, opt("The file to write, in RepoEval's format.")],
    library: Annotated[Many, opt("An installed package that the code needs; repeatable.")] = None,
    limit: Annotated[int, opt("Maximum number of tasks.", least=1)] = 24,
) -> None:
    """Make tasks from a Python package and its tests.

    The tests are executed on this machine, so use only code that you trust.
    """
    from pkg_lib.data import packages
    from pkg_lib.papers.cast import cast_steps

    package = packages.local(directory, source, tests, library or [])
    cast_steps.write_tasks(package, output, typer.echo, limit)


@cast_app.command()
def crosscodeeval(
    completions: Annotated[Path, arg("A JSONL file with task_id and completion on each line.")],
    language: Annotated[str, opt("python, java, csharp or typescript.")] = "python",
) -> None:
    """Measure completions of CrossCodeEval's tasks.

    The measures are exact match, edit similarity, and matches of identifiers.
    """
    from pkg_lib.data.crosscodeeval import report

    say(report(completions, language))


@dkb_app.command()
def typegraph(
    directory: Annotated[Path, arg("Java source: a directory, or a zip archive such as src.zip.")],
    mode: Annotated[
        str, opt("Names: resolved (by Java's scopes), or as-published (simple).")
    ] = "resolved",
    processes: Processes = 2,
    store: Annotated[Path | None, opt("A file that caches parsed sources.")] = None,
    edges: Annotated[
        Many, opt("More edges: arguments (of supertypes) or beans (@Bean); repeatable.")
    ] = None,
    output: OutputFile = None,
    record: Annotated[
        str, opt("Measure both modes, and store them under this name in results.")
    ] = "",
    tokens: Annotated[
        bool, opt("With --record: count the embedder's tokens of all chunks.", "--tokens")
    ] = False,
    embed: Annotated[
        bool, opt("With --record: embed all chunks too, and store the seconds.", "--embed")
    ] = False,
) -> None:
    """Build the type graph of Java source (node-link JSON)."""
    from pkg_lib.graph.types import build

    if (tokens or embed) and not record:
        raise UserError("--tokens and --embed are stored with --record NAME; give it too")
    built = build.build(directory, mode, processes, store, edges or ())
    say(build.lines(built))
    if output:
        build.save(built.graph, output)
        typer.echo(f"saved: {output}")
    if record:
        from pkg_lib.papers.dkb import measurement, repository_study

        folder = repository_study.folder_of(results_dir(), record)
        measurement.measure(directory, record, folder, processes, tokens, embed)
        typer.echo(f"recorded: {folder / 'index.json'}")


@dkb_app.command()
def ask(
    repository: Annotated[
        str, arg("Java source: a directory, a zip archive, or openjdk-17/MODULE.")
    ],
    questions: Annotated[Path, opt("A YAML file of questions, with the types that they need.")],
    model: Annotated[
        str, opt("The model that extracts LLM-KB's graph and answers.", **AS_MODEL)
    ] = "",
    retries: Annotated[int, opt("Number of retries for files that LLM-KB skipped.", least=0)] = 0,
    method: Annotated[
        Many, opt("A method that answers: No-Graph, DKB or LLM-KB; repeatable. Default: all.")
    ] = None,
    record: Annotated[
        bool, opt("Measure the time of indexing and of a query again.", "--record")
    ] = False,
    dry_run: Annotated[
        bool, opt("Only estimate what the answers would cost.", "--dry-run")
    ] = False,
    tokens_per_second: Annotated[
        float | None, opt("Speed of the model, for --dry-run.", least=0.001)
    ] = None,
) -> None:
    """Measure retrieval for questions about Java source.

    Reports how many of the needed types are in the contexts of No-Graph, DKB and LLM-KB.
    """
    from pkg_lib.papers.dkb import measurement

    place = str(absolute(repository)) if Path(repository).exists() else repository
    if method and not (model or dry_run):
        raise UserError("--method says whose answers the --model writes; give a model too")
    options = measurement.AskOptions(
        model,
        method or (),
        retries,
        record,
        dry_run,
        tokens_per_second,
    )
    say(measurement.run(place, str(absolute(questions)), results_dir(), options))


@evor_app.command("make-library")
def make_library(
    library: Annotated[str, arg("networkx or more-itertools.")],
    output: Annotated[Path, opt("The directory to write, which must not exist yet.")],
) -> None:
    """Write a copy of a library under names that no model knows."""
    from pkg_lib.papers.evor import make_library as making

    typer.echo(f"writing {library} under other names ...")
    made = making.make(library, output)
    typer.echo(f"{output}: {len(made.files)} files, {len(made.names)} renamed names")
