"""Context-augmented code generation: retrieve code, prompt a model with it, and test what it writes.

Without a command, the options are those of `run`.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from pkg_lib.core import locks, models, workers
from pkg_lib.core.embedders import EMBEDDERS, embedder_spec, quickest
from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.reading import absolute, shown
from pkg_lib.core.registry import load_plugins, plugins, unknown
from pkg_lib.core.store import results_dir, results_path, slug
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.corpora import (
    CONTEXT_CHARS,
    CORPORA,
    DEFAULT,
    MINILM,
    TOKENIZER_NAMES,
    Retrieval,
    check_tokenizer,
    is_text,
    retrieved_by,
    tokenizer_of,
)
from pkg_lib.evaluation import study
from pkg_lib.generation.prompts import TEMPLATES
from pkg_lib.retrieval.columns import retrieved, variants

# Newer typer carries its own click, so the base of its usage errors is taken from one that it exports.
UsageFault = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
MOST_ARGUMENTS, ARGUMENT_CHARACTERS = 10, 30  # of superfluous arguments that an error names
STOPPED = (
    "stopped; run the same command again, without --fresh, to continue: completions are stored"
)
# Imports that take long stand in the commands that need them: each is to say at once what it is doing.
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help=__doc__,
    context_settings={"max_content_width": 100},
)


def arg(about: str, **more: Any) -> Any:
    return typer.Argument(help=about, **more)


def opt(about: str, *names: str, least: float | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=about, min=least, **more)


def model_name(name: str, style: str = "") -> str:
    """Return the name of a model as cache keys and files have it.

    Args:
        name: A model's name as the user wrote it.
        style: How to prompt it; "" for the model's usual style.

    Returns:
        The name with an absolute directory, and with its style unless that is chat.

    Raises:
        UserError: There is no such model or style, or the model has a style of its own.
    """
    if not name or (name in models.MODELS and not style):
        return name
    if name in models.MODELS:
        takers = ", ".join(models.KINDS.values())
        raise UserError(f"model {name} has a prompt style of its own; --style is only for {takers}")
    spec = models.model_spec(name)
    TEMPLATES.get_or_fail(style := style or spec.style)
    bare = f"path:{spec.directory}" if spec.directory else name.partition("#")[0]
    return bare if style == "chat" else f"{bare}#{style}"


def one_line(message: str) -> str:
    """A message without line breaks: those that a name holds are escaped, as are other control characters.

    Args:
        message: What is said, perhaps of a file whose name was chosen by somebody else.

    Returns:
        Printable text in one line.
    """
    safe = message.strip().encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in safe)


def usage_fault(message: str) -> str:
    """What typer says of a command line that it does not understand, with up to ten superfluous arguments.

    Args:
        message: Its message.

    Returns:
        One line, perhaps shorter than the message.
    """
    message = " ".join(message.split())
    many = re.fullmatch(r"(Got unexpected extra argument(?:s|\(s\)) \()(.*)(\))", message)
    names = many[2].split(" ") if many else []
    if len(names) <= MOST_ARGUMENTS:
        return message
    few = [n if len(n) <= ARGUMENT_CHARACTERS else f"...{n[-ARGUMENT_CHARACTERS:]}" for n in names]
    return (
        f"{many[1]}{' '.join(few[:MOST_ARGUMENTS])} and {len(names) - MOST_ARGUMENTS} more{many[3]}"
    )


class OneLine(logging.Filter):
    """Makes each warning of this program one line for each line that it has on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape control characters in the arguments of a warning; never drops one."""
        if (
            record.name.startswith("pkg_lib")
            and isinstance(record.args, tuple)
            and len(record.args) > 1
        ):
            record.args = tuple(
                shown(str(a)) if isinstance(a, str | Path | Exception) else a for a in record.args
            )
        return True


def say(lines: Iterable[object]) -> None:
    for line in lines:
        typer.echo(line)


def screen_width() -> int:
    """Columns of the terminal (or COLUMNS); 100 where the output goes to a file or a pipe."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def wrapped(line: str, indent: int) -> str:
    """Break a line at the width of the screen, but never within a word, which may be a path or an address.

    Args:
        line: One line of text; the spaces that it starts with are kept.
        indent: How far the lines after the first are indented.

    Returns:
        The text in as many lines as it needs.
    """
    how = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    return textwrap.fill(line, screen_width(), subsequent_indent=" " * indent, **how)


def in_columns(names: Iterable[str]) -> list[str]:
    """Arrange names in columns that fit the screen, in the order of reading down each column.

    Args:
        names: The names; one that is longer than the screen has a line of its own.

    Returns:
        Indented lines.
    """
    names = list(names)
    cell = max(map(len, names), default=0) + 2
    per_line = max(1, (screen_width() - 2) // cell)
    height = -(-len(names) // per_line)
    rows = ["".join(name.ljust(cell) for name in names[i::height]) for i in range(height)]
    return [f"  {row}".rstrip() for row in rows]


Many = list[str] | None
MODEL = f"A model from `list`, or {', '.join(models.KINDS.values())}."
TOKENIZER_HELP = (
    f"How BM25 splits words: {' or '.join(TOKENIZER_NAMES)}. Default: by corpus, see README."
)
LONG_HELP = (
    "For llm, documents that exceed one prompt: split (by section) or skip. "
    "Default: skip for python-docs."
)
PARAMETER, NAMED = "A parameter of notebooks; repeatable.", {"metavar": "NAME"}
READ = {"parser": model_name, "metavar": "MODEL"}
Model = Annotated[str, opt(MODEL, **READ)]
ModelArgument = Annotated[str, arg(MODEL, **READ)]
Corpus = Annotated[str, opt("A corpus from `list`, or several joined by '+'.")]
Embedding = Annotated[str, opt(f"An embedder from `list`, or {', '.join(models.KINDS.values())}.")]
Processes = Annotated[int, opt("Number of parallel processes.", least=1)]
CorpusName = Annotated[str, arg("A corpus from `list`, or several joined by '+'.")]
BenchmarkName = Annotated[str, arg("A benchmark from `list`.")]
Engine = Annotated[
    str, opt("Where to encode, build graphs and execute samples: local, or ray[:HOST:PORT].")
]
OutputFile = Annotated[Path | None, opt("The file to write.")]
OutputDirectory = Annotated[Path | None, opt("The directory to save the graph in.")]
Store = Annotated[
    str, opt("A graph database to save it in, with vectors: bolt://HOST[:PORT][/NAME].")
]


@app.command()
def run(
    model: Annotated[Many, opt(f"{MODEL[:-1]}; repeatable.", metavar="MODEL")] = None,
    style: Annotated[
        str, opt("Prompt style for hf:, path: and endpoint: models, such as plain.")
    ] = "",
    benchmark: Annotated[Many, opt("A benchmark from `list`; repeatable.", **NAMED)] = None,
    corpus: Annotated[
        Many, opt("A corpus from `list`, or several as A+B; repeatable.", **NAMED)
    ] = None,
    column: Annotated[
        Many, opt("Only this column (method) from `list`; repeatable.", **NAMED)
    ] = None,
    notebook: Annotated[
        Many, opt("A notebook from `list`, instead of all; repeatable.", **NAMED)
    ] = None,
    parameter: Annotated[Many, opt(PARAMETER, "--parameter", "-p", metavar="NAME=VALUE")] = None,
    embedder: Embedding = MINILM,
    tokenizer: Annotated[str, opt(TOKENIZER_HELP, show_default=False)] = "",
    top_k: Annotated[int, opt("Number of retrieved units in a context.", least=1)] = 1,
    context_chars: Annotated[int, opt("Maximum characters of each unit.", least=1)] = CONTEXT_CHARS,
    limit: Annotated[int | None, opt("Only the first N tasks.", least=1)] = None,
    shard: Annotated[
        str, opt("Part I of N of the tasks, as I/N, without notebooks; see `merge`.")
    ] = "1/1",
    samples: Annotated[
        int | None, opt("Sample N answers per task, of None by default.", least=1)
    ] = None,
    temperature: Annotated[float, opt("Temperature for --samples.", least=0.01)] = 0.8,
    top_p: Annotated[float, opt("Nucleus sampling threshold for --samples.", least=0.01)] = 0.95,
    fresh: Annotated[
        bool, opt("Retrieve, generate and execute everything again.", "--fresh")
    ] = False,
    rerun: Annotated[
        bool, opt("Execute all notebooks again, on stored results.", "--rerun")
    ] = False,
    jobs: Annotated[
        int | None, opt("Parallel notebooks. Default: by cores and memory.", least=1)
    ] = None,
    slots: Annotated[
        int | None, opt("Prompts decoded together. Default: by the GPU's memory.", least=1)
    ] = None,
    dry_run: Annotated[
        bool, opt("Only print what would run, and what it would cost.", "--dry-run")
    ] = False,
    tokens_per_second: Annotated[
        float | None, opt("Speed of the model, for --dry-run.", least=0.001)
    ] = None,
    prices: Annotated[Path | None, opt("CSV like notebooks/prices.csv, for --dry-run.")] = None,
    engine: Engine = "local",
) -> None:
    """Run the study: retrieve, generate, execute, report.

    Stored completions and verdicts are reused; --fresh computes them again. A notebook is executed again only
    when its source, its parameters, the program or its stored inputs have changed; --rerun executes all.
    """
    if tokenizer:
        check_tokenizer(tokenizer)
    how = Retrieval(embedder_spec(embedder).pinned, top_k, context_chars, tokenizer)
    asked = map(_absolute, corpus or ([study.STUDY[0].corpus] if how != Retrieval() else []))
    corpora, values = (
        [retrieved_by(name, how) for name in asked],
        dict(map(_parameter, parameter or [])),
    )
    chosen = [model_name(name, style) for name in model or ([study.MODEL] if style else [])]
    for name in chosen:
        models.check_directory(name, results_path())
        if name.startswith("endpoint:"):
            endpoints()  # a damaged file of endpoints is reported once, not for each notebook
    named = (chosen, benchmark or (), corpora, column or (), notebook or ())
    if not samples and (temperature, top_p) != (0.8, 0.95):
        raise UserError(
            "--temperature and --top-p have an effect only with --samples; add --samples N"
        )
    workers.engine_name(engine)
    part, of = map(int, shard.split("/")) if re.fullmatch(r"\d{1,6}/\d{1,6}", shard) else (0, 0)
    if not 1 <= part <= of:
        raise UserError(
            f"--shard {shard} names no part of the tasks; write I/N, such as 1/4 to 4/4"
        )
    if slots and chosen and all(name.startswith("endpoint:") for name in chosen):
        raise UserError(
            "--slots has no effect on an endpoint; set concurrency in its table of endpoints.toml"
        )
    sampling = samples or 0, temperature, top_p
    choice = study.Choice(*named, values, limit, fresh, *sampling, (part, of), slots)
    if dry_run:
        from pkg_lib.evaluation import batch, forecast
        from pkg_lib.papers.pkg.cost import read_prices

        table = read_prices(prices).dropna().itertuples() if prices else ()
        priced = {name: (asked, new) for name, asked, new in table}  # dollars for a million tokens
        rates = forecast.Rates(tokens_per_second, priced or None)
        say(batch.dry_run(study.plan(choice), fresh or rerun, rates))
        return
    if tokens_per_second or prices:
        raise UserError(
            "--tokens-per-second and --prices have an effect only with --dry-run; add it"
        )
    workers.use(engine)
    typer.echo("reading stored results ...")
    from pkg_lib.analysis.report import render_notebook
    from pkg_lib.evaluation import batch, notebook_execution

    work = batch.Batch(
        typer.echo, jobs or notebook_execution.default_parallelism(), fresh or rerun, render_notebook
    )
    with locks.writing(results_dir()):
        work.run(study.plan(choice))
        code, errors = work.outcome()
        for line in errors:
            typer.echo(f"error: {one_line(line)}", err=True)
        if work.reported:
            report()
    raise typer.Exit(code)


def _parameter(text: str) -> tuple[str, object]:
    """NAME=VALUE as a Python literal, else as text; the place of a file or corpus is made absolute."""
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise UserError(f"--parameter {text} has no name and value; write NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if name == "prices" and value:
            return name, str(absolute(value))
        return name, _absolute(value) if name.endswith("corpus") else value


def _absolute(corpus: str) -> str:
    """source:DIR with an absolute directory: notebooks run elsewhere, and it names what is stored."""
    return re.sub(r"(?<![^+])source:([^+]+)", lambda m: f"source:{absolute(m[1])}", corpus)


@app.command()
def merge(folders: Annotated[list[Path], arg("The results directories of the shards.")]) -> None:
    """Merge the results of shards into the results directory.

    Nothing is merged when two shards have different answers to the same prompt.
    """
    from pkg_lib.evaluation import merge as merging

    try:
        with locks.writing(results_dir()):
            say(merging.merge(folders, results_dir()) or ["nothing new to merge"])
    except merging.PartlyMerged as e:
        say(e.lines)
        raise


@app.command()
def report() -> None:
    """Build results/index.html and the leaderboard (CSV, JSON)."""
    from pkg_lib.analysis.report import build_report
    from pkg_lib.papers.pkg import task_pages

    typer.echo(f"report: {build_report(results_dir(), task_pages.build)}")


@app.command()
def pack() -> None:
    """Compress stored completions to a fifth of their size.

    Result files that an earlier version stored uncompressed are compressed as well.
    """
    from pkg_lib.generation import cache

    with locks.writing(results_dir()):
        left = cache.pack_rows(results_dir())
        try:
            cache.pack(results_dir() / "generations")
        except UserError as e:
            left += e.args
    if left:
        raise UserError(*left)


@app.command()
def doctor() -> None:
    """Check what is installed, and say where to get the rest."""
    from pkg_lib.doctor import INDENT, lines

    say(wrapped(line, INDENT) for line in lines())


@app.command()
def fetch(model: ModelArgument) -> None:
    """Download, verify and convert a model's weights."""
    revision = models.revision_of(models.model_spec(model), results_path())
    typer.echo(f"{model}: ready at {models.fetch(model, revision)}")


@app.command("verify-cache")
def verify_cache(
    model: Model = study.MODEL,
    sample: Annotated[int, opt("Number of cached prompts to complete again.", least=1)] = 8,
    seed: Annotated[int, opt("Seed of the random choice of prompts.", least=0)] = 0,
) -> None:
    """Complete cached prompts again and compare the tokens.

    Sampled answers are generated with the seeds that they were sampled with.
    """
    from pkg_lib.evaluation import verify

    same, lines = verify.verify(model, sample, seed)
    say([*lines, f"{same}/{sample} identical, {sample - same} changed"])
    if any(verify.UNEXPLAINED in line for line in lines):
        raise typer.Exit(1)


@app.command()
def graph(
    corpus: CorpusName,
    processes: Processes = 1,
    output: OutputDirectory = None,
    store: Store = "",
    embedder: Annotated[str, opt("For --store: the embedder of the vectors.")] = MINILM,
    engine: Engine = "local",
) -> None:
    """Build the graph of a corpus, and report what was skipped or cut.

    A graph in a graph database is a corpus itself: run --corpus bolt://HOST[:PORT][/NAME].
    """
    from pkg_lib.graph import bolt, disk
    from pkg_lib.papers.pkg import graph_building
    from pkg_lib.retrieval.embed import Embedder

    workers.use(engine)
    with bolt.opened(store) if store else nullcontext() as database:
        built = graph_building.build_corpus(corpus, processes)
        say(graph_building.lines(built))
        say(graph_building.unread_lines(built.graph))
        _save(disk.save, built.graph, output)
        if database:
            kind = "text" if is_text(corpus) else "code"
            about = built.documents, kind, tokenizer_of(corpus)
            typer.echo(database.save(built.graph, _absolute(corpus), Embedder(embedder), *about))
    if built.ledger and not built.ledger.balanced:
        raise typer.Exit(1)


def _save(save: Callable[[Any, Path], object], built: Any, output: Path | None) -> None:
    if output is not None:
        save(built, output)
        typer.echo(f"saved: {output}")


@app.command()
def search(
    place: Annotated[str, arg("Where `graph` has saved a graph: a directory or bolt://...")],
    query: Annotated[str, arg("What the code should do.")],
    unit: Annotated[
        str, opt("What to find: function, block, or leaf (in a graph of text).")
    ] = "function",
    index: Annotated[str, opt("flat (exact), or hnsw (faster on large graphs).")] = "flat",
    top: Annotated[int, opt("Number of nodes to print.", "--top", "--top-k", least=1)] = 10,
    embedder: Embedding = "",
) -> None:
    """Find the nodes of a saved graph nearest to a query."""
    from pkg_lib.retrieval import explain
    from pkg_lib.retrieval.embed import Embedder

    held = MINILM if "://" in place else quickest()  # the vectors in a database are MiniLM's
    say(explain.search(place, [query], Embedder(embedder or held), unit, index, top))


@app.command()
def enhance(
    corpus: Corpus = DEFAULT,
    model: Model = study.MODEL,
    count: Annotated[int, opt("Maximum number of functions.", least=1)] = 500,
    every: Annotated[bool, opt("Ask for all functions, whatever --count says.", "--all")] = False,
    benchmark: Annotated[str, opt("Also measure how retrieval changes for this benchmark.")] = "",
) -> None:
    """Let a model write docstrings for functions without one.

    The model must support fill-in-the-middle. Run the command again to continue after an interruption. The
    method `Func-PKG, enhanced` retrieves from the functions that were asked about and those with docstrings.
    """
    from pkg_lib.papers.pkg import enhancer

    corpus, results = _absolute(corpus), results_dir()
    if benchmark:
        load_benchmark(benchmark)  # a mistake in its name costs no hours
    say(_figures(enhancer.enhance(corpus, model, None if every else count, results)))
    if benchmark:
        say(_figures(enhancer.measure_change(corpus, model, benchmark, results)))


@app.command()
def structure(
    corpus: Corpus = "python-docs",
    structurer: Annotated[str, opt("How: headings, docstrings or llm.")] = "headings",
    model: Annotated[str, opt("The model that writes the JSON, for llm.", **READ)] = "",
    limit: Annotated[int | None, opt("Only the first N documents.", least=1)] = None,
    long_documents: Annotated[str, opt(LONG_HELP, show_default=False)] = "",
) -> None:
    """Turn a text corpus into JSON, from which graphs are built.

    Run the command again to continue after an interruption: answers are stored as they come.
    """
    from pkg_lib.data import structuring

    log = structuring.structure(
        corpus, structurer, results_dir(), model, limit, long_documents=long_documents
    )
    say(_figures(log))


@app.command()
def topics(
    model: Annotated[str, opt(MODEL, **READ)] = study.MODEL,
    benchmark: Annotated[str, opt("A benchmark from `list`.")] = "mbpp",
    limit: Annotated[int | None, opt("Only the first N tasks.", least=1)] = None,
) -> None:
    """Let a model sort a benchmark's tasks into topics.

    It names a fine category for each task and a topic for each category, as in the PKG paper. Reports how far
    these topics agree with those by rules. Run the command again to continue after an interruption.
    """
    from pkg_lib.papers.pkg import model_topics
    from pkg_lib.papers.pkg.topics import topics_of

    results = results_dir()
    say(_figures(model_topics.label_tasks(benchmark, model, results, limit)))
    table = model_topics.agreement_table(results, benchmark, topics_of(benchmark, results))
    if table:
        typer.echo(table.frame.T.to_string())


def _figures(log: dict[str, Any]) -> Iterable[str]:
    """The figures of a log, one a line; of its tables, those of what was rejected."""
    for name, value in log.items():
        if isinstance(value, dict) and name.startswith("rejected"):
            value = ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
        if isinstance(value, str | int | float) and "digest" not in name:
            yield f"{name.replace('_', ' ')}: {value}"


@app.command()
def replay(
    folder: Annotated[
        Path, arg("Directory of <benchmark>/<method>.jsonl with task_id, completion.")
    ],
    protocol: Annotated[str, opt("How to judge: pkg-paper or standard.")] = "pkg-paper",
    engine: Engine = "local",
) -> None:
    """Execute stored completions, and compare published verdicts."""
    workers.use(engine)
    typer.echo(f"reading the samples of {shown(str(folder))} ...")
    from tqdm import tqdm

    from pkg_lib.papers.pkg import replay as replaying

    replaying.find_samples(folder)  # a mistake in its name is told before there is a bar
    name = absolute(folder).name
    target = results_dir() / "replay" / slug(name)
    with tqdm(unit="sample") as bar:

        def progress(method: str, done: int) -> None:
            bar.set_description(f"{shown(name)} {method}", refresh=False)
            bar.update(1 if done else 0)

        replayed = replaying.replay(folder, target, protocol, progress=progress)
    say(f"problem: {one_line(problem)}" for problem in replayed.problems)
    for row in replayed.disagreements.itertuples():
        where = f"{row.benchmark} {row.method} {row.task_id}"
        typer.echo(f"disagreement: {where}: here {row.status}, published {row.published}")
    typer.echo(replayed.table.to_string(index=False, na_rep="–"))
    if not replayed.table[["passed", "failed"]].to_numpy().any():
        # Of a long list of problems the first says best why: damage precedes what is missing because of it.
        why = replayed.problems[0] if replayed.problems else "no task has one"
        nothing = f"no completion in {folder} could be judged: {why}"
        raise UserError(nothing, *replayed.damaged)
    if replayed.damaged:
        raise UserError(*replayed.damaged)


@app.command()
def chunk(
    path: Annotated[Path | None, arg("A source file, or a directory of them.")] = None,
    mode: Annotated[str, opt("lossless, or as-published (loses some text).")] = "lossless",
    method: Annotated[str, opt("How: cast, algorithm-1, split-only or fixed-size.")] = "cast",
    max_size: Annotated[
        int, opt("Maximum characters of a chunk, without white space.", least=1)
    ] = 2000,
    lines: Annotated[int, opt("Lines in a fixed-size chunk.", least=1)] = 60,
    language: Annotated[str, opt("The language, where the file name does not show it.")] = "",
    processes: Processes = 1,
    join: Annotated[
        bool, opt("Read chunks from standard input, and write the file.", "--join")
    ] = False,
) -> None:
    """Split source files into chunks, one JSON line each.

    A summary of what was kept, lost or skipped goes to standard error.
    """
    from pkg_lib.chunking import stream
    from pkg_lib.chunking.chunker import Chunker

    if join:
        stream.join(sys.stdin.buffer, sys.stdout.buffer)
    elif path is None:
        raise UserError(
            "chunk needs a file or a directory; or --join, with chunks on standard input"
        )
    else:
        chunker = Chunker(method, mode, max_size, lines)
        typer.echo(
            stream.split(path, chunker, language or None, sys.stdout.buffer, processes), err=True
        )


@app.command("repo-tasks")
def repo_tasks(
    steps: Annotated[Many, arg("Any of tasks, chunks, retrieval. Default: all.")] = None,
    benchmark: Annotated[
        str, opt("For the step retrieval: packages, repoeval or swebench-lite.")
    ] = "",
    ranker: Annotated[Many, opt("For the step retrieval: BM25 or MiniLM; repeatable.")] = None,
) -> None:
    """Prepare cAST's tasks: functions of pinned packages.

    Also measures chunks and retrieval. Then generate and test with `run --benchmark packages`.
    """
    from pkg_lib.papers.cast import cast_steps

    cast_steps.run(results_dir() / "repo_tasks", typer.echo, steps or [], benchmark, ranker or [])


@app.command()
def crosscodeeval(
    completions: Annotated[Path, arg("A JSONL file with task_id and completion on each line.")],
    language: Annotated[str, opt("python, java, csharp or typescript.")] = "python",
) -> None:
    """Measure completions of CrossCodeEval's tasks.

    The measures are exact match, edit similarity, and matches of identifiers.
    """
    from pkg_lib.data.crosscodeeval import report

    say(report(completions, language))


@app.command("make-tasks")
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

    cast_steps.write_tasks(
        packages.local(directory, source, tests, library or []), output, typer.echo, limit
    )


@app.command()
def show(
    model: ModelArgument,
    benchmark: BenchmarkName,
    task: Annotated[str, arg("The id of a task, such as HumanEval/20.")],
    corpus: Annotated[
        str, opt("A corpus from `list`. Default: the study's first for the benchmark.")
    ] = "",
    column: Annotated[
        str, opt("A column (method) from `list`. Default: the last that has results.")
    ] = "",
    output: OutputFile = None,
) -> None:
    """Write a page about one task, with everything stored of it.

    It shows the prompt, contexts, completions and verdicts. Without --output the page is in results/shown.
    """
    typer.echo(f"reading stored results of {task} ...")
    from pkg_lib.papers.pkg import cases

    typer.echo(cases.show(model, benchmark, task, _absolute(corpus), column, output))


@app.command()
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
) -> None:
    """Build the type graph of Java source (node-link JSON)."""
    from pkg_lib.graph.types import build

    built = build.build(directory, mode, processes, store, edges or ())
    say(build.lines(built))
    _save(build.save, built.graph, output)
    if record:
        from pkg_lib.papers.dkb import measurement, repository_study

        folder = repository_study.folder_of(results_dir(), record)
        measurement.measure(directory, record, folder, processes)
        typer.echo(f"recorded: {folder / 'index.json'}")


@app.command("repo-qa")
def repo_qa(
    repository: Annotated[
        str, arg("Java source: a directory, a zip archive, or openjdk-17/MODULE.")
    ],
    questions: Annotated[Path, opt("A YAML file of questions, with the types that they need.")],
    model: Annotated[str, opt("The model that extracts LLM-KB's graph and answers.", **READ)] = "",
    retries: Annotated[int, opt("Number of retries for files that LLM-KB skipped.", least=0)] = 0,
    record: Annotated[
        bool, opt("Measure the time of indexing and of a query again.", "--record")
    ] = False,
) -> None:
    """Measure retrieval for questions about Java source.

    Reports how many of the types that the questions need are in the contexts of No-Graph, DKB and LLM-KB.
    """
    from pkg_lib.papers.dkb import measurement

    place = str(absolute(repository)) if Path(repository).exists() else repository
    say(measurement.run(place, str(absolute(questions)), results_dir(), model, retries, record))


@app.command("make-library")
def make_library(
    library: Annotated[str, arg("networkx or more-itertools.")],
    output: Annotated[Path, opt("The directory to write, which must not exist yet.")],
) -> None:
    """Write a copy of a library under names that no model knows."""
    from pkg_lib.papers.evor import make_library as making

    typer.echo(f"writing {library} under other names ...")
    made = making.make(library, output)
    typer.echo(f"{output}: {len(made.files)} files, {len(made.names)} renamed names")


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def lab(options: Annotated[Many, arg("Options of `jupyter lab`.")] = None) -> None:
    """Start JupyterLab in notebooks/, with its own options."""
    os.chdir(study.NOTEBOOKS)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *(options or [])])


@app.command("list")
def list_names(
    kinds: Annotated[Many, arg("Only these, such as models. Default: all.")] = None,
) -> None:
    """List models, benchmarks, corpora, columns and notebooks."""
    of_servers = [f"endpoint:{name}" for name in endpoints()]
    names: dict[str, Iterable[str]] = {
        "models": [*models.MODELS, *of_servers, *models.KINDS.values()],
        "benchmarks": BENCHMARKS,
        "corpora": CORPORA,
        "columns": retrieved(),
        "variants": variants(),
        "embedders": [*EMBEDDERS, *of_servers, *models.KINDS.values()],
    }
    names["styles"] = [
        name for name in TEMPLATES if "," not in name
    ]  # the others are variants of prompts
    names["notebooks"] = study.notebooks()
    for kind in kinds or names:
        if kind not in names:
            raise unknown("list", kind, names)
    for kind in kinds or names:
        say([kind, *in_columns(names[kind])])
        if kind == "models":
            default = (
                f"`pkg-lib fetch {study.MODEL}` (the default model) {models.SOURCE_OF_WEIGHTS}."
            )
            typer.echo(wrapped(f"  {default}", 2))


def main() -> int:
    """Exit code 0; 1 when a notebook failed; 2 with one line for a user's mistake; 130 for Ctrl-C."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(OneLine())
    for (
        name,
        value,
    ) in os.environ.items():  # places are the caller's: notebooks run in another directory
        if value and re.fullmatch(r"PKG_(.*_)?(RESULTS|CACHE|DIR|DOCS|SOURCE|ENDPOINTS)", name):
            os.environ[name] = str(absolute(value))
    os.environ["PKG_PLUGINS"] = os.pathsep.join(map(str, plugins()))
    words = sys.argv[1:]
    if not words or (words[0].startswith("-") and words[0] != "--help"):
        words = ["run", *words]
    try:
        load_plugins()
        code = app(words, standalone_mode=False) or 0
    except (UserError, UsageFault) as e:
        for message in e.args if isinstance(e, UserError) else [usage_fault(e.format_message())]:
            typer.echo(f"error: {one_line(str(message))}", err=True)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer turns Ctrl-C into this exit code and says nothing
        typer.echo(STOPPED, err=True)
    return code
