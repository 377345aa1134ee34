"""The command line. Options without a command, or nothing, are those of `run`.

Imports that take long stand in the commands that need them, so that each says at once what it is doing.
"""

from __future__ import annotations

import ast
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pkg_lib.core import models
from pkg_lib.core.store import results_dir, results_path, slug
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark, named_protocol
from pkg_lib.data.corpora import CORPORA, DEFAULT
from pkg_lib.experiment import study
from pkg_lib.retrieval.columns import ALL

# Newer typer carries its own click, so the base of its usage errors is taken from one that it exports.
UsageFault = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

HELP = "Programming knowledge graphs for code generation. Options without a command, or nothing at all, are those of `run`."
app = typer.Typer(add_completion=False, help=HELP, rich_markup_mode=None)

Models = Annotated[list[str] | None, typer.Option("--model", help="A model of `list`; repeatable.")]
Benchmarks = Annotated[
    list[str] | None, typer.Option("--benchmark", help="A benchmark of `list`; repeatable.")
]
Columns = Annotated[list[str] | None, typer.Option("--column", help="Generate this column only; repeatable.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", help="NAME=VALUE of a notebook; repeatable.")
]
Corpora = Annotated[
    list[str] | None, typer.Option("--corpus", help="A corpus of `list`, parts joined by '+'; repeatable.")
]
Notebooks = Annotated[list[str] | None, typer.Option("--notebook", help="A notebook of `list`; repeatable.")]
Limit = Annotated[int | None, typer.Option(help="Only the first N tasks.")]

Fresh = Annotated[
    bool, typer.Option("--fresh", help="Retrieve, generate and execute all again, whatever is stored.")
]
Rerun = Annotated[bool, typer.Option("--rerun", help="Execute all notebooks again, from what is stored.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and what it would cost.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", help="Notebooks at once; else one a core, 1.5 GB of free memory each.")
]
Speed = Annotated[
    float | None, typer.Option(help="For --dry-run: new tokens a second, where another speed is known.")
]
Prices = Annotated[
    Path | None, typer.Option(help="For --dry-run: a CSV as notebooks/prices.csv, a sample, is one.")
]


@app.command()
def run(
    model: Models = None,
    benchmark: Benchmarks = None,
    corpus: Corpora = None,
    column: Columns = None,
    notebook: Notebooks = None,
    parameter: Parameters = None,
    limit: Limit = None,
    fresh: Fresh = False,
    rerun: Rerun = False,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    tokens_per_second: Speed = None,
    prices: Prices = None,
) -> None:
    """Runs the study: retrieval, generation, execution, notebooks, report.

    What is stored is used: a completion or verdict that is there is not computed again (--fresh does), and a notebook
    whose source, parameters, program and stored inputs are as they were when its tables and figures were made is not
    executed again (--rerun does, and rebuilds every table and figure).
    """
    from pkg_lib.experiment import batch

    chosen = study.parts(benchmark or [], [_absolute(c) for c in corpus or []], column or [], model or [])
    own = dict(_parameter(p) for p in parameter or [])
    study.check_choice(
        notebook or [], {"model": model, "benchmark": benchmark, "corpus": corpus, "column": column}
    )
    asked = (chosen, notebook or [], limit, fresh, own)
    if dry_run:
        _dry_run(asked, fresh or rerun, tokens_per_second, prices)
        return
    if tokens_per_second is not None or prices is not None:
        raise UserError(
            "--tokens-per-second and --prices go with --dry-run, which computes and writes nothing"
        )
    typer.echo("reading what is stored ...")
    done = batch.run(*asked, typer.echo, jobs=jobs, rerun=rerun)
    code, lines = batch.told(done)
    for line in lines:
        typer.echo(f"error: {line}", err=True)
    if done.reported:
        _report()
    if code:
        raise typer.Exit(code)


def _dry_run(asked: Any, again: bool, tokens_per_second: float | None, prices: Path | None) -> None:
    from pkg_lib.experiment import batch, forecast

    if tokens_per_second is not None and not 0 < tokens_per_second < float("inf"):
        raise UserError(f"--tokens-per-second {tokens_per_second:g}: a speed above 0 is needed")
    rates = forecast.Rates(tokens_per_second, forecast.read_prices(prices) if prices else None)
    for line in batch.dry_run(study.plan(*asked), again, rates):
        typer.echo(line)


def _parameter(text: str) -> tuple[str, object]:
    """NAME=VALUE as a Python literal where it is one, else as text."""
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise UserError(f"--parameter {text}: write NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, _absolute(value) if name.endswith("corpus") else _file(
            value
        ) if name == "prices" else value


def _file(path: str) -> str:
    """A file's path made absolute, since notebooks run in another directory than the caller; "" stays."""
    return str(Path(path).expanduser().resolve()) if path else path


def _absolute(corpus: str) -> str:
    """A source:DIR with its directory made absolute, since notebooks run in another directory than the caller."""

    def whole(part: str) -> str:
        directory = part.removeprefix("source:")
        return f"source:{Path(directory).expanduser().resolve()}" if directory and directory != part else part

    return "+".join(whole(p) for p in corpus.split("+"))


@app.command()
def report() -> None:
    """Builds results/index.html from what lies in results/."""
    _report()


def _report() -> None:
    from pkg_lib.analysis.report import build_report

    typer.echo(f"report: {build_report(results_dir())}")


@app.command()
def doctor() -> None:
    """Says what is at hand here, and where the rest would come from."""
    from pkg_lib import doctor as facts

    for line in facts.lines():
        typer.echo(line)


@app.command()
def fetch(model: Annotated[str, typer.Argument(help="A model of `list`.")]) -> None:
    """Downloads, verifies and converts a model's weights."""
    revision = models.revision_of(models.model_spec(model), results_path())
    typer.echo(f"{model}: ready at {models.fetch(model, revision)}")


@app.command("verify-cache")
def verify_cache(
    model: Annotated[str, typer.Option(help="Whose completions.")] = study.MODEL,
    sample: Annotated[int, typer.Option(help="How many cached prompts to complete again.")] = 8,
    seed: Annotated[int, typer.Option(help="Which ones.")] = 0,
) -> None:
    """Completes cached prompts again, live, and compares the tokens."""
    from pkg_lib.experiment import verify

    same, lines = verify.verify(model, sample, seed)
    for line in lines:
        typer.echo(line)
    typer.echo(f"{same}/{sample} identical")
    if any(verify.UNEXPLAINED in line for line in lines):
        raise typer.Exit(1)


@app.command()
def graph(
    corpus: Annotated[str, typer.Argument(help="A corpus of `list`, parts joined by '+'.")],
    processes: Annotated[int, typer.Option(help="How many build at once (code only).")] = 1,
    output: Annotated[Path | None, typer.Option(help="A directory to save the graph in.")] = None,
) -> None:
    """Builds the graph of a corpus of code or text, and says what it holds and what was skipped."""
    from pkg_lib.graph.disk import directory as store
    from pkg_lib.papers.pkg import graph_building as building

    built = building.build_corpus(corpus, processes)
    for line in building.lines(built):
        typer.echo(line)
    if output is not None:
        store.save(built.graph, output)
        typer.echo(f"saved: {output}")
    if built.ledger and not built.ledger.balanced:
        raise typer.Exit(1)


@app.command()
def search(
    folder: Annotated[Path, typer.Argument(help="A directory in which `graph` has saved one.")],
    query: Annotated[str, typer.Argument(help="What the code should do.")],
    unit: Annotated[str, typer.Option(help="function, block, or leaf (of a graph of text).")] = "function",
    index: Annotated[str, typer.Option(help="flat (exact) or hnsw (fast on large graphs).")] = "flat",
    top: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 10,
) -> None:
    """Finds the nodes of a saved graph that are nearest to a query."""
    from pkg_lib.retrieval import search as searching
    from pkg_lib.retrieval.embed import Embedder

    for line in searching.search(folder, query, Embedder(), unit, index, top):
        typer.echo(line)


@app.command()
def enhance(
    corpus: Annotated[str, typer.Option(help="A corpus of code.")] = DEFAULT,
    model: Annotated[str, typer.Option(help="A model that fills in the middle.")] = study.MODEL,
    count: Annotated[int, typer.Option(help="How many functions without a docstring.")] = 500,
    benchmark: Annotated[
        str, typer.Option(help="Also say what that changes in this benchmark's retrieval.")
    ] = "",
) -> None:
    """Lets a model write docstrings for functions that have none; a stopped run goes on where it was."""
    from pkg_lib.papers.pkg import enhancer

    if benchmark:
        load_benchmark(benchmark)  # a mistake in its name costs no hours
    _told(enhancer.enhance(_absolute(corpus), model, count, results_dir()), ENHANCED)
    if benchmark:
        _told(enhancer.measure_change(_absolute(corpus), model, benchmark, results_dir()), CHANGED)


@app.command()
def structure(
    corpus: Annotated[str, typer.Option(help="A corpus of text.")] = "python-docs",
    structurer: Annotated[str, typer.Option(help="headings, docstrings or llm.")] = "headings",
    model: Annotated[str, typer.Option(help="Who writes the JSON; for llm only.")] = "",
    limit: Annotated[int | None, typer.Option(help="Only the first N documents.")] = None,
) -> None:
    """Turns the documents of a text corpus into JSON, the first step of a text graph."""
    from pkg_lib.data import structuring

    _told(structuring.structure(corpus, structurer, model, limit, results_dir()), STRUCTURED)


ENHANCED = (
    "model",
    "revision",
    "corpus",
    "functions",
    "without_docstring",
    "asked",
    "accepted",
    "rejected",
    "tokens",
    "seconds",
)
CHANGED = (
    "benchmark",
    "tasks",
    "top1_changed",
    "top1_enhanced",
    "mean_cosine_rise",
    "defines_before",
    "defines_after",
)
STRUCTURED = (
    "model",
    "revision",
    "corpus",
    "structurer",
    "in_corpus",
    "qualifying",
    "documents",
    "structured",
    "rejected_by_reason",
    "validity_rate",
    "validity_rate_with_retries",
    "retries",
    "invalid_answers_by_reason",
    "kept_of_headings",
)


def _told(log: dict[str, Any], names: tuple[str, ...]) -> None:
    """Those figures of a log that it has, one a line."""
    for name in names:
        value = log.get(name)
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
        if value is not None:
            typer.echo(f"{name.replace('_', ' ')}: {value}")


@app.command()
def replay(
    folder: Annotated[
        Path, typer.Argument(help="DIR/<benchmark>/<method>.jsonl with task_id and completion a line.")
    ],
    protocol: Annotated[str, typer.Option(help="pkg-paper or standard.")] = "pkg-paper",
) -> None:
    """Executes completions from elsewhere, and lists where they carry another verdict."""
    typer.echo(f"reading the samples of {folder} ...")
    from tqdm import tqdm

    from pkg_lib.papers.pkg.replay import replay as run_replay

    if not folder.is_dir():
        raise UserError(f"{folder} is no directory; give one with <benchmark>/<method>.jsonl files")
    named_protocol(protocol)
    name = folder.resolve().name
    with tqdm(unit="sample") as bar:

        def progress(method: str, done: int) -> None:
            bar.set_description(f"{name} {method}", refresh=False)
            bar.update(1 if done else 0)

        found = run_replay(folder, results_dir() / "replay" / slug(name), protocol, progress=progress)
    for problem in found.problems:
        typer.echo(f"problem: {problem}")
    for row in found.disagreements.itertuples():
        typer.echo(
            f"disagreement: {row.benchmark} {row.method} {row.task_id}: here {row.status}, published {row.published}"
        )
    typer.echo(found.table.to_string(index=False, na_rep="–"))
    if not found.table[["passed", "failed"]].to_numpy().any():
        raise UserError(f"nothing of {folder} could be measured; the problems above say why")


@app.command()
def chunk(
    path: Annotated[Path | None, typer.Argument(help="A source file, or a tree of them.")] = None,
    mode: Annotated[str, typer.Option(help="as-published or lossless.")] = "lossless",
    method: Annotated[str, typer.Option(help="cast, algorithm-1, split-only or fixed-size.")] = "cast",
    max_size: Annotated[
        int, typer.Option(help="The limit of a chunk in characters that are no white space.")
    ] = 2000,
    lines: Annotated[int, typer.Option(help="The lines of a fixed-size chunk.")] = 60,
    language: Annotated[str, typer.Option(help="Of a file whose suffix does not say it.")] = "",
    join: Annotated[
        bool, typer.Option("--join", help="Write the bytes of the chunks that come in on standard input.")
    ] = False,
) -> None:
    """Cuts source files into chunks, one JSON line each on standard output; what is kept and lost on standard error."""
    from pkg_lib.chunking import stream
    from pkg_lib.chunking.chunker import Chunker

    if join:
        stream.join(sys.stdin.buffer, sys.stdout.buffer)
        return
    if path is None:
        raise UserError("chunk: name a file or a directory, or give --join with chunks on standard input")
    typer.echo(
        stream.split(path, Chunker(method, mode, max_size, lines), language or None, sys.stdout.buffer),
        err=True,
    )


@app.command("repo-tasks")
def repo_tasks(
    steps: Annotated[
        list[str] | None, typer.Argument(help="tasks, chunks, retrieval, completions, verdicts; all if none.")
    ] = None,
    model: Annotated[str, typer.Option(help="A chat model of `list`.")] = study.MODEL,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="A column, such as 'cast, BM25'; repeatable.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Complete only the first N tasks of each package.")
    ] = None,
    benchmark: Annotated[
        str, typer.Option(help="For retrieval alone: repoeval or swebench-lite, from its directory.")
    ] = "",
    ranker: Annotated[
        list[str] | None, typer.Option("--ranker", help="For retrieval alone: BM25, MiniLM; repeatable.")
    ] = None,
) -> None:
    """Functions of packages without their bodies: chooses them, measures chunks and retrieval, completes and judges."""
    from pkg_lib.papers.cast import running

    running.run(results_dir(), typer.echo, steps or [], model, column or [], limit, benchmark, ranker or [])


@app.command()
def crosscodeeval(
    completions: Annotated[Path, typer.Argument(help="A file with task_id and completion a line.")],
    language: Annotated[str, typer.Option(help="python, java, csharp or typescript.")] = "python",
) -> None:
    """Measures completions from elsewhere of CrossCodeEval's tasks: exact match, edit similarity, identifiers."""
    from pkg_lib.data.crosscodeeval import report

    for line in report(completions, language):
        typer.echo(line)


@app.command("make-tasks")
def make_tasks(
    directory: Annotated[
        Path, typer.Argument(help="Where the package and its tests lie, as they are imported.")
    ],
    source: Annotated[
        list[str], typer.Option(help="A package or file below it whose functions are masked; repeatable.")
    ],
    tests: Annotated[list[str], typer.Option(help="A directory or file of tests below it; repeatable.")],
    output: Annotated[Path, typer.Option(help="The file to write, records of RepoEval's form.")],
    library: Annotated[
        list[str] | None, typer.Option(help="An installed package that it needs; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many tasks at most.")] = 24,
) -> None:
    """Makes repository tasks from any Python package with tests. Its code and tests are executed: name code that you trust."""
    from pkg_lib.data import packages
    from pkg_lib.papers.cast import running

    running.write_tasks(packages.local(directory, source, tests, library or []), output, typer.echo, limit)


@app.command()
def show(
    model: Annotated[str, typer.Argument(help="A model of `list`.")],
    benchmark: Annotated[str, typer.Argument(help="A benchmark of `list`.")],
    task: Annotated[str, typer.Argument(help="A task's id, such as HumanEval/20.")],
    corpus: Annotated[
        str, typer.Option(help="A corpus of `list`; the study's first for the benchmark if not given.")
    ] = "",
    column: Annotated[
        str, typer.Option(help="A column of `list`; the corpus' own graph column if not given.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option(help="The file to write, instead of one in results/shown.")
    ] = None,
) -> None:
    """Writes one page about one task: prompt, context, subgraph, completions and verdicts without and with a column."""
    typer.echo(f"reading what is stored of {task} ...")
    from pkg_lib.papers.pkg import showing

    typer.echo(showing.show(model, benchmark, task, _absolute(corpus), column, output))


@app.command()
def typegraph(
    directory: Annotated[
        Path, typer.Argument(help="A directory, or a zip archive such as src.zip, of Java source.")
    ],
    mode: Annotated[
        str, typer.Option(help="resolved (names by Java's scopes) or as-published (by simple name).")
    ] = "resolved",
    processes: Annotated[int, typer.Option(help="How many parse at once.")] = 2,
    store: Annotated[
        Path | None, typer.Option(help="A file that keeps what was parsed; then only changed files are.")
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option(help="Edges that the paper lacks: arguments (of supertypes), beans (@Bean); repeatable."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="A file for the graph as JSON (node-link).")] = None,
    record: Annotated[
        str, typer.Option(help="A name: measure both modes and keep the figures in results/repo_qa.")
    ] = "",
) -> None:
    """Builds the type graph of Java source, and says what it holds and what was skipped."""
    from pkg_lib.graph.types import build

    for line in build.lines(built := build.build(directory, mode, processes, store, edges or ())):
        typer.echo(line)
    if output is not None:
        build.save(built.graph, output)
        typer.echo(f"saved: {output}")
    if record:
        from pkg_lib.papers.dkb.measurement import measure
        from pkg_lib.papers.dkb.repository_study import folder_of

        measure(directory, record, folder_of(results_dir(), record), processes)
        typer.echo(f"recorded: {folder_of(results_dir(), record) / 'index.json'}")


@app.command("repo-qa")
def repo_qa(
    repository: Annotated[
        str, typer.Argument(help="Java source: a directory, a zip archive, or openjdk-17/MODULE.")
    ],
    questions: Annotated[Path, typer.Option(help="A YAML file of questions with the types that they need.")],
    model: Annotated[
        str, typer.Option(help="Who extracts LLM-KB's graph and answers; without it nobody is asked.")
    ] = "",
    retries: Annotated[
        int, typer.Option(help="How often LLM-KB asks again for files that were skipped.")
    ] = 0,
    record: Annotated[
        bool, typer.Option("--record", help="Measure the seconds of indexing and of a query again.")
    ] = False,
) -> None:
    """Gathers the context of each question by No-Graph, DKB and LLM-KB, and says how many of the needed types it holds."""
    from pkg_lib.papers.dkb import measurement

    # A path of the caller's is made absolute; a name such as openjdk-17 is left as it is.
    place = str(Path(repository).resolve()) if Path(repository).exists() else repository
    for line in measurement.run(place, str(questions.resolve()), results_dir(), model, retries, record):
        typer.echo(line)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def lab(context: typer.Context) -> None:
    """Starts JupyterLab in notebooks/; what follows are its own options."""
    from pkg_lib import lab as jupyter

    jupyter.start(context.args)


@app.command("list")
def list_names() -> None:
    """The names that `run` takes."""
    rows = {
        "models": models.MODELS,
        "benchmarks": BENCHMARKS,
        "corpora": [*CORPORA, "source:DIR", "docstrings:PACKAGE", "structured:FILE"],
        "columns": ALL,
        "notebooks": study.notebooks(),
    }
    for name, values in rows.items():
        typer.echo(f"{name}: {', '.join(values)}")


def _places_made_absolute() -> None:
    """Directories in PKG_ variables, where they are relative to the caller's: notebooks run in another one."""
    for name, value in os.environ.items():
        if (
            name.startswith("PKG_")
            and name.endswith(("_RESULTS", "_CACHE", "_DIR", "_DOCS", "_SOURCE"))
            and value
        ):
            os.environ[name] = str(Path(value).expanduser().resolve())


def main() -> int:
    """Exit code 0; 1 when a notebook failed; 2 with one line for a user's mistake; 130 for Ctrl-C."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    _places_made_absolute()
    words = sys.argv[1:]
    if not words or (words[0].startswith("-") and words[0] != "--help"):
        words = ["run", *words]
    try:
        code = app(words, standalone_mode=False) or 0
    except (UserError, UsageFault) as e:
        for message in e.args if isinstance(e, UserError) else [e.format_message()]:
            typer.echo(f"error: {' '.join(message.split())}", err=True)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer turns Ctrl-C into this exit code and says nothing
        typer.echo(
            "stopped; what was computed is kept, run the same command again, without --fresh, to go on",
            err=True,
        )
    return code
