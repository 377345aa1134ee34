"""Context-augmented code generation. Options without a command, or nothing, are those of `run`."""

from __future__ import annotations

import ast
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from pkg_lib.core import locks, models, workers
from pkg_lib.core.embedders import EMBEDDERS, embedder_spec, quickest
from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.registry import joined, load_plugins, plugins
from pkg_lib.core.store import results_dir, results_path, slug
from pkg_lib.core.types import UserError
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.data.corpora import CONTEXT_CHARS, CORPORA, DEFAULT, MINILM, Retrieval, retrieved_by
from pkg_lib.experiment import study
from pkg_lib.generation.prompts import TEMPLATES
from pkg_lib.retrieval.columns import retrieved, variants

# Newer typer carries its own click, so the base of its usage errors is taken from one that it exports.
UsageFault = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
STOPPED = "stopped; completions are kept: run the same command again, without --fresh, to go on with the rest"
# Imports that take long stand in the commands that need them: each is to say at once what it is doing.
app = typer.Typer(add_completion=False, rich_markup_mode=None, help=__doc__)


def arg(about: str, **more: Any) -> Any:
    return typer.Argument(help=about, **more)


def opt(about: str, *names: str, least: float | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=about, min=least, **more)


def model_name(name: str, style: str = "") -> str:
    """The name that keys and files bear: a directory is absolute, and only another style than chat is named.

    UserError for a model or a style that is none.
    """
    if not name or (name in models.MODELS and not style):
        return name
    if name in models.MODELS:
        raise UserError(f"--style goes with {', '.join(models.KINDS.values())}; {name} has its own")
    spec = models.model_spec(name)
    TEMPLATES.get_or_fail(style := style or spec.style)
    bare = f"path:{spec.directory}" if spec.directory else name.partition("#")[0]
    return bare if style == "chat" else f"{bare}#{style}"


def say(lines: Iterable[object]) -> None:
    for line in lines:
        typer.echo(line)


Many = list[str] | None
MODEL = f"A model of `list`, or {', '.join(models.KINDS.values())}."
READ = {"parser": model_name, "metavar": "MODEL"}
Model = Annotated[str, opt(MODEL, **READ)]
ModelArgument = Annotated[str, arg(MODEL, **READ)]
Corpus = Annotated[str, opt("A corpus of `list`, parts joined by '+'.")]
Embedding = Annotated[str, opt(f"An embedder of `list`, or {', '.join(models.KINDS.values())}.")]
Processes = Annotated[int, opt("How many work at once.", least=1)]
Name = Annotated[str, arg("A name of `list`.")]
Engine = Annotated[str, opt("Who encodes, builds graphs and executes samples: local, or ray[:HOST:PORT].")]
Output = Annotated[Path | None, opt("The file or, for a graph, the directory to write.")]
Store = Annotated[str, opt("bolt://HOST[:PORT][/NAME]: a graph database to write, with all vectors.")]


@app.command()
def run(
    model: Annotated[Many, opt(f"{MODEL[:-1]}; repeatable.", metavar="MODEL")] = None,
    style: Annotated[str, opt("How hf:, path: and endpoint: are prompted: chat, plain, or a model's.")] = "",
    benchmark: Annotated[Many, opt("A benchmark of `list`; repeatable.")] = None,
    corpus: Annotated[Many, opt("A corpus of `list`, parts joined by '+'; repeatable.")] = None,
    column: Annotated[Many, opt("Generate this column only; repeatable.")] = None,
    notebook: Annotated[Many, opt("A notebook of `list`; repeatable.")] = None,
    parameter: Annotated[Many, opt("NAME=VALUE of a notebook; repeatable.", "--parameter", "-p")] = None,
    embedder: Embedding = MINILM,
    top_k: Annotated[int, opt("How many units make a context.", least=1)] = 1,
    context_chars: Annotated[int, opt("The most characters of each unit.", least=1)] = CONTEXT_CHARS,
    limit: Annotated[int | None, opt("Only the first N tasks.", least=1)] = None,
    shard: Annotated[str, opt("I/N: only this part of the tasks, without notebooks; then `merge`.")] = "1/1",
    samples: Annotated[int | None, opt("Draw N answers of each column, of None by default.", least=1)] = None,
    temperature: Annotated[float, opt("Of the draws.", least=0.01)] = 0.8,
    top_p: Annotated[float, opt("The share of the likeliest tokens that are drawn from.", least=0.01)] = 0.95,
    fresh: Annotated[bool, opt("Retrieve, generate and execute all again.", "--fresh")] = False,
    rerun: Annotated[bool, opt("Execute all notebooks again, from what is stored.", "--rerun")] = False,
    jobs: Annotated[int | None, opt("Notebooks at once; else as cores and memory allow.", least=1)] = None,
    dry_run: Annotated[bool, opt("Only say what would run, and what it would cost.", "--dry-run")] = False,
    tokens_per_second: Annotated[float | None, opt("For --dry-run: where known.", least=0.001)] = None,
    prices: Annotated[Path | None, opt("For --dry-run: a CSV such as notebooks/prices.csv.")] = None,
    engine: Engine = "local",
) -> None:
    """Runs the study: retrieval, generation, execution, notebooks, report.

    Completions and verdicts that are stored are not computed again (--fresh does), nor are notebooks executed
    again while their source, parameters, program and stored inputs are as they were (--rerun does).
    """
    how = Retrieval(embedder_spec(embedder).pinned, top_k, context_chars)
    asked = map(_absolute, corpus or ([study.STUDY[0].corpus] if how != Retrieval() else []))
    corpora, values = [retrieved_by(name, how) for name in asked], dict(map(_parameter, parameter or []))
    chosen = [model_name(name, style) for name in model or ([study.MODEL] if style else [])]
    named = (chosen, benchmark or (), corpora, column or (), notebook or ())
    if not samples and (temperature, top_p) != (0.8, 0.95):
        raise UserError("--temperature and --top-p go with --samples")
    workers.engine_name(engine)
    part, of = map(int, shard.split("/")) if re.fullmatch(r"\d{1,6}/\d{1,6}", shard) else (0, 0)
    if not 1 <= part <= of:
        raise UserError(f"--shard {shard}: write I/N with 1 <= I <= N, such as 1/4")
    choice = study.Choice(*named, values, limit, fresh, samples or 0, temperature, top_p, (part, of))
    if dry_run:
        from pkg_lib.experiment import batch, forecast
        from pkg_lib.papers.pkg.cost import read_prices

        table = read_prices(prices).dropna().itertuples() if prices else ()
        priced = {name: (asked, new) for name, asked, new in table}  # dollars for a million tokens
        rates = forecast.Rates(tokens_per_second, priced or None)
        say(batch.dry_run(study.plan(choice), fresh or rerun, rates))
        return
    if tokens_per_second or prices:
        raise UserError("--tokens-per-second and --prices go with --dry-run")
    workers.use(engine)
    typer.echo("reading what is stored ...")
    from pkg_lib.analysis.report import render_notebook
    from pkg_lib.experiment import batch, kernel

    work = batch.Batch(typer.echo, kernel.workers(jobs), fresh or rerun, render_notebook)
    with locks.writing(results_dir()):
        work.run(study.plan(choice))
        code, errors = work.outcome()
        for line in errors:
            typer.echo(f"error: {line}", err=True)
        if work.reported:
            report()
    raise typer.Exit(code)


def _parameter(text: str) -> tuple[str, object]:
    """NAME=VALUE as a Python literal, else as text; the place of a file or corpus is made absolute."""
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise UserError(f"--parameter {text}: write NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if name == "prices" and value:
            return name, str(Path(value).expanduser().resolve())
        return name, _absolute(value) if name.endswith("corpus") else value


def _absolute(corpus: str) -> str:
    """source:DIR with an absolute directory: notebooks run elsewhere, and it names what is stored."""
    return re.sub(r"(?<![^+])source:([^+]+)", lambda m: f"source:{Path(m[1]).expanduser().resolve()}", corpus)


@app.command()
def merge(folders: Annotated[list[Path], arg("What shards have written (their PKG_RESULTS).")]) -> None:
    """Joins the results of shards into the results, or refuses where two say something else."""
    from pkg_lib.experiment import merge as merging

    try:
        with locks.writing(results_dir()):
            say(merging.merge(folders, results_dir()) or ["nothing is new"])
    except merging.PartlyMerged as e:
        say(e.lines)
        raise


@app.command()
def report() -> None:
    """Builds results/index.html and results/leaderboard.csv and .json."""
    from pkg_lib.analysis.report import build_report
    from pkg_lib.papers.pkg import task_pages

    typer.echo(f"report: {build_report(results_dir(), task_pages.build)}")


@app.command()
def pack() -> None:
    """Packs the stored completions to a fifth of their size, and rows that an earlier version left plain."""
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
    """Says what is at hand here, and where the rest would come from."""
    from pkg_lib.doctor import lines

    say(lines())


@app.command()
def fetch(model: ModelArgument) -> None:
    """Downloads, verifies and converts a model's weights."""
    revision = models.revision_of(models.model_spec(model), results_path())
    typer.echo(f"{model}: ready at {models.fetch(model, revision)}")


@app.command("verify-cache")
def verify_cache(
    model: Model = study.MODEL,
    sample: Annotated[int, opt("How many cached prompts to complete again.", least=1)] = 8,
    seed: Annotated[int, opt("Which prompts: the seed of the choice.", least=0)] = 0,
) -> None:
    """Completes cached prompts of a model again, live, draws with their seeds, and compares the tokens."""
    from pkg_lib.experiment import verify

    same, lines = verify.verify(model, sample, seed)
    say([*lines, f"{same}/{sample} identical, {sample - same} changed"])
    if any(verify.UNEXPLAINED in line for line in lines):
        raise typer.Exit(1)


@app.command()
def graph(
    corpus: Name, processes: Processes = 1, output: Output = None, store: Store = "", engine: Engine = "local"
) -> None:
    """Builds the graph of a corpus (parts joined by '+'), and says what it holds and what was skipped."""
    from pkg_lib.graph import bolt, disk
    from pkg_lib.papers.pkg import graph_building
    from pkg_lib.retrieval.embed import Embedder

    workers.use(engine)
    with bolt.opened(store) if store else nullcontext() as database:
        built = graph_building.build_corpus(corpus, processes)
        say(graph_building.lines(built))
        _save(disk.save, built.graph, output)
        if database:
            typer.echo(database.save(built.graph, _absolute(corpus), Embedder()))
    if built.ledger and not built.ledger.balanced:
        raise typer.Exit(1)


def _save(save: Callable[[Any, Path], object], built: Any, output: Path | None) -> None:
    if output is not None:
        save(built, output)
        typer.echo(f"saved: {output}")


@app.command()
def search(
    place: Annotated[str, arg("A directory or database (bolt://...) in which `graph` has saved one.")],
    query: Annotated[str, arg("What the code should do.")],
    unit: Annotated[str, opt("function, block, or leaf (of a graph of text).")] = "function",
    index: Annotated[str, opt("flat (exact) or hnsw (fast on large graphs).")] = "flat",
    top: Annotated[int, opt("How many nodes.", "--top", "--top-k", least=1)] = 10,
    embedder: Embedding = "",
) -> None:
    """Finds the nodes of a saved graph that are nearest to a query."""
    from pkg_lib.retrieval import explain
    from pkg_lib.retrieval.embed import Embedder

    held = MINILM if "://" in place else quickest()  # the vectors in a database are MiniLM's
    say(explain.search(place, [query], Embedder(embedder or held), unit, index, top))


@app.command()
def enhance(
    corpus: Corpus = DEFAULT,
    model: Model = study.MODEL,
    count: Annotated[int, opt("How many functions without a docstring.", least=1)] = 500,
    benchmark: Annotated[str, opt("Also say what that changes in this benchmark's retrieval.")] = "",
) -> None:
    """Lets a fill-in-the-middle model write docstrings for functions of code; a stopped run goes on."""
    from pkg_lib.papers.pkg import enhancer

    corpus, results = _absolute(corpus), results_dir()
    if benchmark:
        load_benchmark(benchmark)  # a mistake in its name costs no hours
    say(_figures(enhancer.enhance(corpus, model, count, results)))
    if benchmark:
        say(_figures(enhancer.measure_change(corpus, model, benchmark, results)))


@app.command()
def structure(
    corpus: Corpus = "python-docs",
    structurer: Annotated[str, opt("headings, docstrings or llm.")] = "headings",
    model: Annotated[str, opt("Who writes the JSON; for llm only.", **READ)] = "",
    limit: Annotated[int | None, opt("Only the first N.", least=1)] = None,
) -> None:
    """Turns the documents of a text corpus into JSON, the first step of a text graph."""
    from pkg_lib.data import structuring

    say(_figures(structuring.structure(corpus, structurer, results_dir(), model, limit)))


def _figures(log: dict[str, Any]) -> Iterable[str]:
    """The figures of a log, one a line; of its tables, those of what was rejected."""
    for name, value in log.items():
        if isinstance(value, dict) and name.startswith("rejected"):
            value = ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
        if isinstance(value, str | int | float) and "digest" not in name:
            yield f"{name.replace('_', ' ')}: {value}"


@app.command()
def replay(
    folder: Annotated[Path, arg("DIR/<benchmark>/<method>.jsonl with task_id and completion a line.")],
    protocol: Annotated[str, opt("pkg-paper or standard.")] = "pkg-paper",
    engine: Engine = "local",
) -> None:
    """Executes completions from elsewhere, and lists where they carry another verdict."""
    workers.use(engine)
    typer.echo(f"reading the samples of {folder} ...")
    from tqdm import tqdm

    from pkg_lib.papers.pkg import replay as replaying

    target = results_dir() / "replay" / slug(folder.resolve().name)
    with tqdm(unit="sample") as bar:

        def progress(method: str, done: int) -> None:
            bar.set_description(f"{folder.resolve().name} {method}", refresh=False)
            bar.update(1 if done else 0)

        replayed = replaying.replay(folder, target, protocol, progress=progress)
    say(f"problem: {problem}" for problem in replayed.problems)
    for row in replayed.disagreements.itertuples():
        where = f"{row.benchmark} {row.method} {row.task_id}"
        typer.echo(f"disagreement: {where}: here {row.status}, published {row.published}")
    typer.echo(replayed.table.to_string(index=False, na_rep="–"))
    if not replayed.table[["passed", "failed"]].to_numpy().any():
        nothing = f"nothing of {folder} could be measured; the problems above say why"
        raise UserError(nothing, *replayed.damaged)
    if replayed.damaged:
        raise UserError(*replayed.damaged)


@app.command()
def chunk(
    path: Annotated[Path | None, arg("A source file, or a tree of them.")] = None,
    mode: Annotated[str, opt("as-published or lossless.")] = "lossless",
    method: Annotated[str, opt("cast, algorithm-1, split-only or fixed-size.")] = "cast",
    max_size: Annotated[int, opt("Characters of a chunk, white space not counted.", least=1)] = 2000,
    lines: Annotated[int, opt("The lines of a fixed-size chunk.", least=1)] = 60,
    language: Annotated[str, opt("Of a file whose suffix does not say it.")] = "",
    processes: Processes = 1,
    join: Annotated[bool, opt("Write the bytes of the chunks on standard input.", "--join")] = False,
) -> None:
    """Cuts source files into chunks, one JSON line each; says on standard error what is kept and lost."""
    from pkg_lib.chunking import stream
    from pkg_lib.chunking.chunker import Chunker

    if join:
        stream.join(sys.stdin.buffer, sys.stdout.buffer)
    elif path is None:
        raise UserError("chunk: name a file or a directory, or give --join with chunks on standard input")
    else:
        chunker = Chunker(method, mode, max_size, lines)
        typer.echo(stream.split(path, chunker, language or None, sys.stdout.buffer, processes), err=True)


@app.command("repo-tasks")
def repo_tasks(
    steps: Annotated[Many, arg("tasks, chunks, retrieval; all if none.")] = None,
    benchmark: Annotated[str, opt("For retrieval alone: packages, repoeval or swebench-lite.")] = "",
    ranker: Annotated[Many, opt("For retrieval alone: BM25, MiniLM; repeatable.")] = None,
) -> None:
    """Chooses functions of packages, measures chunks and retrieval; then: `run --benchmark packages`."""
    from pkg_lib.papers.cast import cast_steps

    cast_steps.run(results_dir() / "repo_tasks", typer.echo, steps or [], benchmark, ranker or [])


@app.command()
def crosscodeeval(
    completions: Annotated[Path, arg("A file with task_id and completion a line.")],
    language: Annotated[str, opt("python, java, csharp or typescript.")] = "python",
) -> None:
    """Measures completions of CrossCodeEval's tasks: exact match, edit similarity, identifiers."""
    from pkg_lib.data.crosscodeeval import report

    say(report(completions, language))


@app.command("make-tasks")
def make_tasks(
    directory: Annotated[Path, arg("Where the package and its tests lie, as they are imported.")],
    source: Annotated[list[str], opt("A package or file whose functions are masked; repeatable.")],
    tests: Annotated[list[str], opt("A directory or file of tests; repeatable.")],
    output: Annotated[Path, opt("The file to write, records of RepoEval's form.")],
    library: Annotated[Many, opt("An installed package that it needs; repeatable.")] = None,
    limit: Annotated[int, opt("How many tasks at most.", least=1)] = 24,
) -> None:
    """Makes repository tasks from a Python package, whose tests are executed: name code that you trust."""
    from pkg_lib.data import packages
    from pkg_lib.papers.cast import cast_steps

    cast_steps.write_tasks(packages.local(directory, source, tests, library or []), output, typer.echo, limit)


@app.command()
def show(
    model: ModelArgument,
    benchmark: Name,
    task: Annotated[str, arg("A task's id, such as HumanEval/20.")],
    corpus: Annotated[str, opt("A corpus of `list`; the study's first for the benchmark if not given.")] = "",
    column: Annotated[str, opt("A column of `list`; the corpus' own graph column if not given.")] = "",
    output: Output = None,
) -> None:
    """Writes a page on one task, else to results/shown: prompt, contexts, completions, verdicts."""
    typer.echo(f"reading what is stored of {task} ...")
    from pkg_lib.papers.pkg import cases

    typer.echo(cases.show(model, benchmark, task, _absolute(corpus), column, output))


@app.command()
def typegraph(
    directory: Annotated[Path, arg("A directory, or a zip archive such as src.zip, of Java source.")],
    mode: Annotated[str, opt("resolved (by Java's scopes) or as-published (simple names).")] = "resolved",
    processes: Processes = 2,
    store: Annotated[Path | None, opt("A file that keeps what was parsed, for the next time.")] = None,
    edges: Annotated[Many, opt("More edges: arguments (of supertypes), beans (@Bean); repeatable.")] = None,
    output: Output = None,
    record: Annotated[str, opt("A name: measure both modes and keep the figures in results/repo_qa.")] = "",
) -> None:
    """Builds the type graph of Java source (node-link JSON), and says what it holds and what was skipped."""
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
    repository: Annotated[str, arg("Java source: a directory, a zip archive, or openjdk-17/MODULE.")],
    questions: Annotated[Path, opt("A YAML file of questions with the types that they need.")],
    model: Annotated[str, opt("Who extracts LLM-KB's graph and answers; else nobody is asked.", **READ)] = "",
    retries: Annotated[int, opt("How often LLM-KB asks again for skipped files.", least=0)] = 0,
    record: Annotated[bool, opt("Measure the seconds of indexing and of a query again.", "--record")] = False,
) -> None:
    """Says how many of the types that questions need reach the contexts of No-Graph, DKB, LLM-KB."""
    from pkg_lib.papers.dkb import measurement

    place = str(Path(repository).resolve()) if Path(repository).exists() else repository
    say(measurement.run(place, str(questions.resolve()), results_dir(), model, retries, record))


@app.command("make-library")
def make_library(
    library: Annotated[str, arg("networkx or more-itertools.")],
    output: Annotated[Path, opt("The directory to write, which is not there yet.")],
) -> None:
    """Writes a library under names that no model knows, with its tests."""
    from pkg_lib.papers.evor import make_library as making

    typer.echo(f"writing {library} anew ...")
    made = making.make(library, output)
    typer.echo(f"{output}: {len(made.files)} files, {len(made.names)} names changed")


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def lab(options: Annotated[Many, arg("As of `jupyter lab`.")] = None) -> None:
    """Starts JupyterLab in notebooks/; what follows are its own options."""
    os.chdir(study.NOTEBOOKS)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *(options or [])])


@app.command("list")
def list_names() -> None:
    """The names that `run` takes."""
    names = {
        "models": [*models.MODELS, *(f"endpoint:{name}" for name in endpoints())],
        "benchmarks": BENCHMARKS,
        "corpora": CORPORA,
        "columns": retrieved(),
        "variants of columns": variants(),
        "embedders": [*EMBEDDERS, *(f"endpoint:{name}" for name in endpoints())],
    }
    say(f"{kind}: {joined(of)}" for kind, of in (names | {"notebooks": study.notebooks()}).items())


def main() -> int:
    """Exit code 0; 1 when a notebook failed; 2 with one line for a user's mistake; 130 for Ctrl-C."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    for name, value in os.environ.items():  # places are the caller's: notebooks run in another directory
        if value and re.fullmatch(r"PKG_(.*_)?(RESULTS|CACHE|DIR|DOCS|SOURCE|ENDPOINTS)", name):
            os.environ[name] = str(Path(value).expanduser().resolve())
    os.environ["PKG_PLUGINS"] = os.pathsep.join(map(str, plugins()))
    words = sys.argv[1:]
    if not words or (words[0].startswith("-") and words[0] != "--help"):
        words = ["run", *words]
    try:
        load_plugins()
        code = app(words, standalone_mode=False) or 0
    except (UserError, UsageFault) as e:
        for message in e.args if isinstance(e, UserError) else [e.format_message()]:
            typer.echo(f"error: {' '.join(message.split())}", err=True)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer turns Ctrl-C into this exit code and says nothing
        typer.echo(STOPPED, err=True)
    return code
