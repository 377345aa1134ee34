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
from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pkg_lib import paper_commands
from pkg_lib.core import locks, models, workers
from pkg_lib.core.embedders import DEFAULT as DEFAULT_EMBEDDER
from pkg_lib.core.embedders import EMBEDDERS, INT8, embedder_spec
from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.reading import absolute, shown
from pkg_lib.core.registry import load_plugins, plugins, unknown
from pkg_lib.core.store import IS_CHECKOUT, results_dir, results_path, slug
from pkg_lib.core.types import Context, UnavailableError, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import (
    CONTEXT_CHARS,
    CORPORA,
    TOKENIZER_NAMES,
    check_tokenizer,
    is_text,
    tokenizer_of,
    with_options,
)
from pkg_lib.evaluation import study
from pkg_lib.generation.prompts import TEMPLATES, Prompt
from pkg_lib.options import (
    MODEL_HELP,
    BenchmarkArgument,
    CorpusArgument,
    Embedding,
    Engine,
    Limit,
    Many,
    Model,
    ModelArgument,
    OutputFile,
    Processes,
    Slots,
    absolute_corpus,
    arg,
    lines_in_columns,
    model_name,
    one_line,
    opt,
    say,
    wrapped,
)
from pkg_lib.retrieval.methods import (
    current_name,
    retrieving_methods,
    rounds_together,
    variant_methods,
)

# Newer versions of typer carry their own click, so the base of usage errors is found through typer.
UsageFault: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
SHOWN_ARGUMENTS = 10  # of superfluous arguments that an error names
SHOWN_CHARACTERS = 33  # of each
STOPPED = (
    "stopped; to continue from what is stored so far, run the same command again, without --fresh"
)
RUN, DATA, RESULTS, SETUP, PAPERS = (
    "Study",
    "Corpora and graphs",
    "Stored results",
    "Set-up",
    "Commands of one paper",
)


class GroupedCommands(TyperGroup):
    """Lists the commands under headings in the help text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each heading.

        Args:
            ctx: The context of the command line.
            formatter: Receives the text.
        """
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or PAPERS
            sections.setdefault(heading, []).append((f"{name:<12}", command.get_short_help_str(70)))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


# Imports that take long are inside the commands, so that each says at once what it does.
app = typer.Typer(
    cls=GroupedCommands,
    add_completion=False,
    rich_markup_mode=None,
    help=__doc__,
    context_settings={"max_content_width": 100},
)
NAMED: dict[str, Any] = {"metavar": "NAME"}
DEFAULT_SAMPLING = (0.8, 0.95)  # temperature and top_p


@app.command(rich_help_panel=RUN)
def run(
    model: Annotated[Many, opt(f"{MODEL_HELP[:-1]}; repeatable.", metavar="MODEL")] = None,
    style: Annotated[
        str, opt("Prompt style for hf:, path: and endpoint: models, such as plain.")
    ] = "",
    benchmark: Annotated[Many, opt("A benchmark from `list`; repeatable.", **NAMED)] = None,
    corpus: Annotated[
        Many, opt("A corpus from `list`, or several as A+B; repeatable.", **NAMED)
    ] = None,
    method: Annotated[Many, opt("Only this method from `list`; repeatable.", **NAMED)] = None,
    notebook: Annotated[
        Many, opt("A notebook from `list`, instead of all; repeatable.", **NAMED)
    ] = None,
    parameter: Annotated[
        Many,
        opt("A parameter of notebooks; repeatable.", "--parameter", "-p", metavar="NAME=VALUE"),
    ] = None,
    embedder: Embedding = "",
    tokenizer: Annotated[
        str,
        opt(
            f"How BM25 splits words: {' or '.join(TOKENIZER_NAMES)}. "
            "Default: by corpus, see docs/concepts.md.",
            show_default=False,
        ),
    ] = "",
    top_k: Annotated[int, opt("Number of retrieved units in a context.", least=1)] = 1,
    context_chars: Annotated[int, opt("Maximum characters of each unit.", least=1)] = CONTEXT_CHARS,
    limit: Limit = None,
    shard: Annotated[
        str, opt("Part I of N of the tasks, as I/N, without notebooks; see `merge`.")
    ] = "1/1",
    samples: Annotated[
        int | None, opt("Sample N answers per task, without retrieval by default.", least=1)
    ] = None,
    temperature: Annotated[float, opt("Temperature for --samples.", least=0.01)] = DEFAULT_SAMPLING[
        0
    ],
    top_p: Annotated[
        float, opt("Nucleus sampling threshold for --samples.", least=0.01)
    ] = DEFAULT_SAMPLING[1],
    fresh: Annotated[
        bool, opt("Retrieve, generate and execute everything again.", "--fresh")
    ] = False,
    rerun: Annotated[
        bool, opt("Execute all notebooks again, on stored results.", "--rerun")
    ] = False,
    jobs: Annotated[
        int | None, opt("Parallel notebooks. Default: by cores and memory.", least=1)
    ] = None,
    slots: Slots = None,
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

    Stored completions and verdicts are reused; --fresh computes them again. A notebook is executed
    again only if its source, its parameters, the program or its stored inputs have changed; --rerun
    executes all.
    """
    if tokenizer:
        check_tokenizer(tokenizer)
    pinned = embedder_spec(embedder).pinned if embedder else ""
    options = (pinned, top_k, context_chars, tokenizer)
    if not corpus and options != ("", 1, CONTEXT_CHARS, ""):
        corpus = [study.STUDY[0].corpus]
    if not model and style:
        model = [study.MODEL]
    names = [model_name(name, style) for name in model or []]
    _check_models(names, slots)
    if not samples and (temperature, top_p) != DEFAULT_SAMPLING:
        raise UserError(
            "--temperature and --top-p have an effect only with --samples; add --samples N"
        )
    workers.engine_name(engine)
    choice = study.Choice(
        models=names,
        benchmarks=benchmark or [],
        corpora=[with_options(absolute_corpus(name), *options).name for name in corpus or []],
        methods=[_current_methods(name) for name in method or []],
        notebooks=notebook or [],
        parameters=dict(map(read_parameter, parameter or [])),
        limit=limit,
        fresh=fresh,
        samples=samples or 0,
        temperature=temperature,
        top_p=top_p,
        shard=_shard(shard),
        slots=slots,
    )
    again = fresh or rerun
    if dry_run:
        _dry_run(choice, again, tokens_per_second, prices)
        return
    if tokens_per_second or prices:
        raise UserError(
            "--tokens-per-second and --prices have an effect only with --dry-run; add it"
        )
    workers.use(engine)
    raise typer.Exit(_run(choice, again, jobs))


def _check_models(names: list[str], slots: int | None) -> None:
    for name in names:
        models.check_directory(name, results_path())
    remote = [name for name in names if name.startswith("endpoint:")]
    if remote:
        endpoints()  # a damaged file of endpoints is reported once, not for each notebook
    if slots and remote and remote == names:
        raise UserError(
            "--slots has no effect on an endpoint; set concurrency in its table of endpoints.toml"
        )


def _shard(text: str) -> tuple[int, int]:
    if re.fullmatch(r"\d{1,6}/\d{1,6}", text):
        part, total = map(int, text.split("/"))
        if 1 <= part <= total:
            return part, total
    raise UserError(f"--shard {text} names no part of the tasks; write I/N, such as 1/4 to 4/4")


def read_parameter(text: str) -> tuple[str, object]:
    """Read a parameter of notebooks.

    Args:
        text: NAME=VALUE as the user wrote it.

    Returns:
        The name and the value: a Python literal, or else text. The place of a file or corpus is
        absolute, since notebooks run in another directory.

    Raises:
        UserError: There is no name or no value.
    """
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise UserError(f"--parameter {text} has no name and value; write NAME=VALUE")
    if name == "column":
        _note_renamed("parameter column", "method")
        name = "method"
    if name in study.METHOD_PARAMETERS:
        value = _current_methods(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        pass
    if name == "prices" and value:
        return name, str(absolute(value))
    return name, absolute_corpus(value) if name.endswith("corpus") else value


def _dry_run(
    choice: study.Choice, again: bool, tokens_per_second: float | None, prices: Path | None
) -> None:
    from pkg_lib.evaluation import batch, forecast
    from pkg_lib.papers.pkg.cost import read_prices

    dollars = {}
    if prices:
        for name, *price in read_prices(prices).dropna().itertuples():
            dollars[name] = tuple(price)
    rates = forecast.Rates(tokens_per_second, dollars or None)
    say(batch.dry_run(study.plan(choice), again, rates))


def _run(choice: study.Choice, again: bool, jobs: int | None) -> int:
    """Carry out a choice; return the exit code."""
    typer.echo("reading stored results ...")
    from pkg_lib.analysis.report import render_notebook
    from pkg_lib.evaluation import batch

    work = batch.Batch(typer.echo, jobs, again, render_notebook)
    with locks.writing(results_dir()):
        work.run(study.plan(choice))
        code, errors = work.outcome()
        for line in errors:
            typer.echo(f"error: {one_line(line)}", err=True)
        if work.reported:
            report()
    return code


@app.command(rich_help_panel=RUN)
def show(
    model: ModelArgument,
    benchmark: BenchmarkArgument,
    task: Annotated[str, arg("The id of a task, such as HumanEval/20.")],
    corpus: Annotated[
        str, opt("A corpus from `list`. Default: the study's first for the benchmark.")
    ] = "",
    method: Annotated[str, opt("A method from `list`. Default: the last that has results.")] = "",
    output: OutputFile = None,
) -> None:
    """Print the prompt of one task, and write a page about it.

    The page shows contexts, completions and verdicts beside those without retrieval. Without
    --output, it is in results/shown.
    """
    typer.echo(f"reading stored results of {task} ...")
    from pkg_lib.papers.pkg import cases

    method = _current_methods(method)
    say(cases.show(model, benchmark, task, absolute_corpus(corpus), method, output))


@app.command(rich_help_panel=RUN)
def report() -> None:
    """Build results/index.html and the leaderboard (CSV, JSON)."""
    from pkg_lib.analysis.report import build_report
    from pkg_lib.papers.pkg import task_pages

    typer.echo(f"report: {build_report(results_dir(), task_pages.build)}")


@app.command(rich_help_panel=RUN)
def replay(
    folder: Annotated[
        Path, arg("Directory of <benchmark>/<method>.jsonl with task_id, completion.")
    ],
    protocol: Annotated[str, opt("How to judge: pkg-paper or standard.")] = "pkg-paper",
    engine: Engine = "local",
) -> None:
    """Execute stored completions, and compare published verdicts.

    For claude-3-haiku and gpt-4o, every rule of extraction is also applied to the raw answers
    that their authors published, if PKG_PAPER_DIR has them.
    """
    workers.use(engine)
    typer.echo(f"reading the samples of {shown(str(folder))} ...")
    from tqdm import tqdm

    from pkg_lib.papers.pkg import closed_extraction
    from pkg_lib.papers.pkg import replay as replaying

    replaying.find_samples(folder)  # a misspelled name is reported before there is a progress bar
    name = absolute(folder).name
    target = results_dir() / "replay" / slug(name)
    with tqdm(unit="sample") as bar:

        def progress(method: str, done: int) -> None:
            bar.set_description(f"{shown(name)} {method}", refresh=False)
            bar.update(1 if done else 0)

        replayed = replaying.replay(folder, target, protocol, progress=progress)
        extraction_error = None
        if closed_extraction.has_raw_answers(name):
            try:
                closed_extraction.judge_extractions(folder, target, protocol, progress)
            except UnavailableError as e:  # The samples are replayed without the raw answers.
                extraction_error = e
    say(f"problem: {one_line(problem)}" for problem in replayed.problems)
    for row in replayed.disagreements.itertuples():
        where = f"{row.benchmark} {row.method} {row.task_id}"
        typer.echo(f"disagreement: {where}: here {row.status}, published {row.published}")
    typer.echo(replayed.table.to_string(index=False, na_rep="–"))
    if extraction_error is not None:
        typer.echo(f"rules of extraction are not compared: {extraction_error}")
    elif closed_extraction.has_raw_answers(name):
        extractions = closed_extraction.closed_extractions(results_dir())
        by_rule = closed_extraction.closed_extraction_table(extractions)
        typer.echo(f"{by_rule.title}\n{by_rule.frame.to_string()}")
    errors = list(replayed.damaged)
    if not replayed.table[["passed", "failed"]].to_numpy().any():
        # The first problem explains best: damage precedes what is missing because of it.
        why = replayed.problems[0] if replayed.problems else "no task has one"
        errors.insert(0, f"no completion in {folder} could be judged: {why}")
    if errors:
        raise UserError(*errors)


@app.command(rich_help_panel=DATA)
def graph(
    corpus: CorpusArgument,
    processes: Processes = 1,
    output: Annotated[Path | None, opt("The directory to save the graph in.")] = None,
    store: Annotated[
        str, opt("A graph database to save it in, with vectors: bolt://HOST[:PORT][/NAME].")
    ] = "",
    embedder: Annotated[str, opt("For --store: the embedder of the vectors.")] = DEFAULT_EMBEDDER,
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
        if output:
            disk.save(built.graph, output)
            typer.echo(f"saved: {output}")
        if database:
            kind = "text" if is_text(corpus) else "code"
            about = built.documents, kind, tokenizer_of(corpus)
            name = absolute_corpus(corpus)
            typer.echo(database.save(built.graph, name, Embedder(embedder), *about))
    if built.ledger and not built.ledger.balanced:
        raise typer.Exit(1)


@app.command(rich_help_panel=DATA)
def search(
    place: Annotated[
        str, arg("source:DIR or another corpus of code, or where `graph` has saved a graph.")
    ],
    query: Annotated[str, arg("What the code should do.")],
    unit: Annotated[
        str, opt("What to find: function, block, or leaf (in a saved graph of text).")
    ] = "function",
    index: Annotated[
        str, opt("For a saved graph: flat (exact), or hnsw (faster on large graphs).")
    ] = "flat",
    top: Annotated[int, opt("Number of results to print.", "--top", "--top-k", least=1)] = 10,
    embedder: Embedding = "",
) -> None:
    """Find code in a corpus or in a saved graph.

    A corpus is searched by words (BM25) at once, and then by meaning. The first search by meaning
    encodes the code; later ones encode only what has changed.
    """
    from pkg_lib.retrieval import code_base, explain
    from pkg_lib.retrieval.embed import Embedder
    from pkg_lib.retrieval.index import INDEXES

    INDEXES.get_or_fail(index)
    corpus = code_base.corpus_at(place)
    if not corpus:
        if not embedder:  # the vectors in a database are of the default embedder
            embedder = DEFAULT_EMBEDDER if "://" in place else INT8
        say(explain.search(place, [query], Embedder(embedder), unit, index, top))
        return
    if index != "flat":
        raise UserError(
            f"--index {index} is for a saved graph: save it by `graph {corpus} --output DIR`, "
            "and search DIR"
        )
    knowledge = explain.knowledge_of_code(absolute_corpus(corpus))
    if embedder:
        knowledge.embedder = Embedder(embedder)
    folder = code_base.folder_of(absolute_corpus(corpus))
    say(explain.search_code(knowledge, query, unit, top, folder))


@app.command(rich_help_panel=RUN)
def ask(
    corpus: CorpusArgument,
    question: Annotated[str, arg("What the model should write: words, or a function's head.")],
    model: Model = study.MODEL,
    method: Annotated[str, opt("A method that retrieves, from `list`.")] = "Func-PKG",
    top: Annotated[
        int,
        opt(
            "Number of functions (or blocks, or rows) in the context.", "--top", "--top-k", least=1
        ),
    ] = 3,
    test: Annotated[
        Path | None, opt("A Python file that runs after each answer, such as assertions.")
    ] = None,
) -> None:
    """Let a model write code with the help of a code base, and without.

    The command prints where the context is from, the prompt, and both answers. With --test, each
    answer runs in the sandbox, followed by the test.
    """
    from pkg_lib.evaluation import asking
    from pkg_lib.retrieval.code_base import corpus_at, folder_of

    program = asking.read_test(test) if test else ""
    place = absolute_corpus(corpus_at(corpus) or corpus)

    def show(context: Context, prompt: Prompt) -> None:
        say(asking.context_lines(context, prompt, folder_of(place)))

    with locks.writing(results_dir()):  # entered before the corpus is encoded, which takes minutes
        answers = asking.ask(place, question, model, method, top, program, retrieved=show)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    say(asking.answer_lines(*answers, width))


@app.command(rich_help_panel=RESULTS)
def merge(folders: Annotated[list[Path], arg("The results directories of the shards.")]) -> None:
    """Merge the results of shards into the results directory.

    Nothing is merged if two shards have different answers to the same prompt.
    """
    from pkg_lib.evaluation import merge as merging

    try:
        with locks.writing(results_dir()):
            say(merging.merge(folders, results_dir()) or ["nothing new to merge"])
    except merging.PartlyMergedError as e:
        say(e.lines)
        raise


@app.command(rich_help_panel=RESULTS)
def pack() -> None:
    """Compress stored completions to a fifth of their size.

    These are the completions of the study, and answers about tutorials, topics and Java files.
    Result files that an earlier version stored uncompressed are compressed as well.
    """
    from pkg_lib.generation.cache import pack_completions, pack_rows

    with locks.writing(results_dir()):
        left = pack_rows(results_dir()) + pack_completions(results_dir())
    if left:
        raise UserError(*left)


@app.command("verify-cache", rich_help_panel=RESULTS)
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


@app.command(rich_help_panel=SETUP)
def doctor() -> None:
    """Check what is installed, and say where to get the rest."""
    from pkg_lib.doctor import INDENT, lines

    say(wrapped(line, INDENT) for line in lines())


@app.command(rich_help_panel=SETUP)
def fetch(model: ModelArgument) -> None:
    """Download, verify and convert a model's weights."""
    revision = models.revision_of(models.model_spec(model), results_path())
    typer.echo(f"{model}: ready at {models.fetch(model, revision)}")


@app.command("list", rich_help_panel=SETUP)
def list_names(
    kinds: Annotated[Many, arg("Only these, such as models. Default: all.")] = None,
) -> None:
    """List models, benchmarks, corpora, methods and notebooks."""
    models_elsewhere = [*(f"endpoint:{name}" for name in endpoints()), *models.KINDS.values()]
    names: dict[str, Iterable[str]] = {
        "models": [*models.MODELS, *models_elsewhere],
        "benchmarks": BENCHMARKS,
        "corpora": CORPORA,
        "methods": rounds_together(retrieving_methods()),
        "variants": variant_methods(),
        "embedders": [*EMBEDDERS, *models_elsewhere],
        "styles": [name for name in TEMPLATES if "," not in name],  # without prompt variants
        "notebooks": study.notebooks(),
    }
    for kind in kinds or names:
        if kind not in names:
            raise unknown("list", kind, names)
    for kind in kinds or names:
        say([kind, *lines_in_columns(names[kind])])
        if kind == "models":
            default = f"`pkg-lib fetch {study.MODEL}` (the default model)"
            typer.echo(wrapped(f"  {default} {models.SOURCE_OF_WEIGHTS}.", 2))


@app.command(rich_help_panel=RESULTS)
def papers() -> None:
    """Say what each table and figure of the papers was measured on."""
    from pkg_lib.analysis import contents

    for paper in contents.PAPERS:
        typer.echo(f"{paper}\n\n{contents.coverage(paper)}\n")


@app.command(
    rich_help_panel=SETUP,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
def lab(options: Annotated[Many, arg("Options of `jupyter lab`.")] = None) -> None:
    """Start JupyterLab in notebooks/, with its own options."""
    if not IS_CHECKOUT:
        raise UserError(
            "lab edits the notebooks of a checkout, and this is an installed package; "
            "clone the repository and start ./run_all.sh lab there"
        )
    arguments = options or []
    starts = not {"--allow-root", "--version", "--help", "--help-all"}.intersection(arguments)
    if os.geteuid() == 0 and starts:
        raise UserError("JupyterLab refuses to run as root; add --allow-root to start it anyway")
    os.chdir(study.NOTEBOOKS)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *arguments])


for _name, _app in paper_commands.APPS.items():
    app.add_typer(_app, name=_name)


class OneLine(logging.Filter):
    """Keeps names in warnings from adding lines to them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape control characters in the arguments of this program's warnings.

        Args:
            record: The warning, which is changed.

        Returns:
            True, since no warning is dropped.
        """
        arguments = record.args
        is_ours = record.name.startswith("pkg_lib")
        if is_ours and isinstance(arguments, tuple) and len(arguments) > 1:
            record.args = tuple(map(_escaped, arguments))
        return True


def _escaped(value: object) -> object:
    return shown(str(value)) if isinstance(value, str | Path | Exception) else value


def usage_message(message: str) -> str:
    """Shorten an error about the command line that names many superfluous arguments.

    Args:
        message: typer's message.

    Returns:
        One line with at most ten arguments.
    """
    message = " ".join(message.split())
    match = re.fullmatch(r"(Got unexpected extra argument(?:s|\(s\)) )\((.*)\)", message)
    words = match[2].split(" ") if match else []
    if not match or len(words) <= SHOWN_ARGUMENTS:
        return message
    named = " ".join(
        f"...{w[3 - SHOWN_CHARACTERS :]}" if len(w) > SHOWN_CHARACTERS else w
        for w in words[:SHOWN_ARGUMENTS]
    )
    return f"{match[1]}({named} and {len(words) - SHOWN_ARGUMENTS} more)"


def current_words(words: list[str]) -> list[str]:
    """Replace old names of commands and options, with a note about each.

    Args:
        words: The command line as typed.

    Returns:
        The command line with today's names. Without a command it is that of `run`.
    """
    if not words or (words[0].startswith("-") and words[0] != "--help"):
        words = ["run", *words]
    command, *rest = words
    if command in paper_commands.OLD_NAMES:
        now = paper_commands.OLD_NAMES[command]
        _note_renamed(command, now)
        return [*now.split(), *rest]
    if command in ("run", "show"):
        words = [_current_option(word) for word in words]
    if command == "list" and "columns" in rest:
        _note_renamed("columns", "methods")
        words[words.index("columns")] = "methods"
    return words


def _current_option(word: str) -> str:
    name, equals, value = word.partition("=")
    if name != "--column":
        return word
    _note_renamed(name, "--method")
    return f"--method{equals}{value}"


def _current_methods(names: str) -> str:
    """Replace old names of methods, of which several may be joined by "+"."""
    current = []
    for name in names.split("+"):
        now = current_name(name)
        if now != name:
            _note_renamed(name, now)
        current.append(now)
    return "+".join(current)


@cache
def _note_renamed(old: str, new: str) -> None:
    """Say once that a name has changed."""
    typer.echo(f"note: {old} is now called {new}", err=True)


def main() -> int:
    """Run the command line.

    Returns:
        The exit code: 0; 1 if a notebook failed; 2 with one line for a user's mistake; 130 after
        Ctrl-C.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    _note_renamed.cache_clear()
    for handler in logging.getLogger().handlers:
        handler.addFilter(OneLine())
    for name, value in os.environ.items():
        # Places are relative to the user's directory, and notebooks run in another one.
        if value and re.fullmatch(
            r"PKG_(.*_)?(RESULTS|CACHE|DATA|DIR|DOCS|SOURCE|ENDPOINTS)", name
        ):
            os.environ[name] = str(absolute(value))
    os.environ["PKG_PLUGINS"] = os.pathsep.join(map(str, plugins()))
    try:
        load_plugins()
        code = app(current_words(sys.argv[1:]), standalone_mode=False) or 0
    except UserError as e:
        for message in e.args:
            typer.echo(f"error: {one_line(str(message))}", err=True)
        return 2
    except UsageFault as e:
        typer.echo(f"error: {one_line(usage_message(e.format_message()))}", err=True)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer turns Ctrl-C into this exit code and says nothing
        typer.echo(STOPPED, err=True)
    return code
