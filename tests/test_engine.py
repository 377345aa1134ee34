"""The option `--engine`: a Ray cluster gives the same results as the local engine, and errors take one line.

The cluster consists of two nodes of local processes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from benchmarks import bench_engine

from pkg_lib.core import workers
from pkg_lib.core.store import ROOT, read_rows
from pkg_lib.core.types import Document, UserError
from pkg_lib.execution import sandbox
from pkg_lib.execution.sandbox import Job, Limits, run_jobs
from pkg_lib.graph.nodes import CHUNK_CHARS
from pkg_lib.graph.schema import build_code_graph
from tests.graph.source_trees import same_graph

PLUGIN = """
from pkg_lib.core.models import MODELS, ModelSpec
from pkg_lib.core.types import Document, ProgramTests, Task
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.data.corpora import CORPORA, CorpusSource

class Numbers(Benchmark):
    name = prompts = "numbers"
    title = home = "Numbers"
    seconds = 3.0
    def tasks(self):
        heads = ((i, f"def n{i}():\\n    '''The number {i}.'''\\n") for i in range(24))
        return [Task(f"N/{i}", self.name, h, f"n{i}", ProgramTests(f"assert n{i}() == {i}"), f"    return {i}\\n") for i, h in heads]
    def program(self, task, solution):
        return task.prompt + solution

BENCHMARKS.register(Numbers())
code = "def f{i}(x):\\n    while x > {i}:\\n        x -= 1\\n    return x\\n"
texts = [Document(f"n/{i}", code.replace("{i}", str(i))) for i in range(100)]
CORPORA.register(CorpusSource("numbers-corpus", lambda: texts, "a file"))
MODELS.register(ModelSpec("tiny", FOLDER, "chat", 0.001))
"""
STUDY = "--model tiny --benchmark numbers --corpus numbers-corpus".split()
METHODS = ["NoRAG", "Func-PKG"]
# Generates the completions of the study. Every third one is wrong.
GENERATE = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from fakes import FakeBackend
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results

def answer(request):
    if request.sample > 0:
        return ""
    number = int(request.task_id[2:])
    result = number if number % 3 > 0 else 0
    return f"    return {{result}}\\n"

results = Results("tiny", "numbers", "numbers-corpus")
print(Evaluator(results, backend=FakeBackend(answer)).generate({METHODS!r}))
"""


def python(*arguments: str, code: int = 0, **variables: str) -> str:
    """Run Python; return its output and its errors.

    Args:
        *arguments: Arguments of the interpreter.
        code: The expected exit code.
        **variables: Further environment variables.
    """
    defaults = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    environment = os.environ | defaults | variables
    command = [sys.executable, "-P", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def command(*words: str, code: int = 0, **variables: str) -> str:
    """Run a command of pkg_lib; return its output and its errors, like `python`."""
    return python("-m", "pkg_lib", *words, code=code, **variables)


@pytest.mark.parametrize(
    "name", ["spark", "local:1", "ray:", "ray:host", "ray:host:port", "ray:host:70000"]
)
def test_refuses_an_unknown_engine(name):
    message = rf"unknown engine '{name}'; .*choose from: local, ray, ray:HOST:PORT"
    with pytest.raises(UserError, match=message):
        workers.engine_name(name)


def test_reports_an_unknown_engine_and_a_missing_package_in_one_line(tmp_path):
    error = command("--engine", "spark", "--dry-run", code=2)
    assert error == "error: unknown engine 'spark'; choose from: local, ray, ray:HOST:PORT\n"
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    error = command("graph", "textbook", "--engine", "ray", code=2, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert error == 'error: engine ray needs the package ray: pip install -e ".[cluster]"\n'


def test_imports_ray_only_for_the_engine_ray(tmp_path):
    (tmp_path / "ray.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("def f():\n    return 1\n")
    output = command("graph", f"source:{tmp_path}/code", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert "1 documents" in output


def skip_without_ray():
    pytest.importorskip("ray", reason='ray is not installed: pip install -e ".[cluster]"')


def test_reports_an_unreachable_cluster_in_one_line(tmp_path):
    skip_without_ray()
    results = tmp_path / "results"
    # The port is bound, but no process listens on it.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        error = command("--engine", f"ray:{address}", code=2, PKG_RESULTS=str(results))
    assert error.startswith(
        f"error: no Ray cluster at {address} (Connection refused); start it with"
    )
    assert error.count("\n") == 1
    assert not results.exists()


def test_reports_a_server_that_is_not_a_cluster(tmp_path, monkeypatch):
    skip_without_ray()
    monkeypatch.setattr(workers, "HEALTH", 3.0)
    # This server accepts connections and never answers.
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        message = f"the server at {address} is not a healthy Ray cluster"
        with pytest.raises(UserError, match=message):
            workers._join(address)


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster of two nodes with one processor each.

    `cluster.add(NAME=VALUE)` starts another node with such an environment variable.
    """
    skip_without_ray()
    import ray
    from ray.cluster_utils import Cluster

    os.environ |= {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    nodes = Cluster()

    def add(**variables):
        return nodes.add_node(
            num_cpus=1,
            object_store_memory=80 * 2**20,
            include_dashboard=False,
            env_vars=variables,
        )

    nodes.add = add
    nodes.add()
    nodes.add()
    # The nodes cannot import this module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def joined(cluster):
    """Use the cluster as the engine of this process."""
    workers.use(f"ray:{cluster.address}")
    yield cluster
    workers.ENGINE.set("local")


def without_times(value):
    """Remove the durations of samples from JSON data."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


# Digests of files that contain times.
DIGEST = re.compile(rb'<!-- [0-9a-f]{64} -->|"from": "[0-9a-f]{64}"')


def contents(folder: Path) -> dict[str, object]:
    """Return the bytes, or the rows of a JSONL file, by path.

    Times and digests of files with times are left out. `leaderboard.made.json` consists of such digests.
    """
    found = {}
    for path in folder.rglob("*"):
        if not path.is_file() or path == folder / "leaderboard.made.json":
            continue
        name = path.relative_to(folder).as_posix()
        if ".jsonl" in path.suffixes:
            found[name] = without_times(read_rows(path))
        else:
            found[name] = DIGEST.sub(b"", path.read_bytes())
    return found


def nearly_equal(one, other):
    """Compare JSON data; numbers may differ in the sixth digit.

    A node computes vectors with one thread, the local engine with all. For some batch sizes, their cosines differ
    by 2e-7 on some processors (measured on one with AMX).
    """
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(nearly_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(nearly_equal, one, other))
    if isinstance(one, float):
        return abs(one - other) < 5e-6
    return one == other


def run_study(folder: Path, engine: str, **variables: str) -> dict[str, object]:
    """Run the study with an engine; return the contents of its results."""
    variables["PKG_RESULTS"] = str(folder)
    variables["PKG_CACHE"] = str(folder.with_name(f"cache-{folder.name}"))
    methods = [word for method in METHODS for word in ("--method", method)]
    options = ("--notebook", "rq1_code_pkg", "--engine", engine)
    output = command(*STUDY, *methods, *options, **variables)
    assert "numbers-corpus: 24 tasks, 0 completions generated" in output
    return contents(folder)


def test_a_study_has_the_same_results_with_both_engines(cluster, tmp_path, tiny_model):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN.replace("FOLDER", repr(str(tiny_model))))
    plugins = {"PKG_PLUGINS": str(plugin)}
    generated = tmp_path / "generated"
    cache = str(tmp_path / "cache-generated")
    python("-c", GENERATE, PKG_RESULTS=str(generated), PKG_CACHE=cache, **plugins)
    for name in ("local", "ray"):
        shutil.copytree(generated / "cache", tmp_path / name / "cache")
    local = run_study(tmp_path / "local", "local", **plugins)
    remote = run_study(tmp_path / "ray", f"ray:{cluster.address}", **plugins)

    assert local.keys() == remote.keys()
    different = [name for name in local if not nearly_equal(local[name], remote[name])]
    assert different == []
    verdicts = remote["runs/numbers/tiny/none/norag/samples.jsonl.gz"]
    assert len(verdicts) == 24
    assert {row["status"] for row in verdicts} == {"passed", "failed"}
    assert (tmp_path / "ray" / "index.html").exists()


def test_a_graph_is_the_same_with_both_engines(joined):
    comment = "#" + "x" * (CHUNK_CHARS // 40) + "\n"
    documents = []  # enough text for three tasks of the cluster
    for i in range(100):
        function = f"def f{i}(x):\n    while x > {i}:\n        x -= 1\n    return x\n"
        documents.append(Document(f"n/{i}", comment + function))
    remote = build_code_graph(documents)
    workers.ENGINE.set("local")
    assert same_graph(remote, build_code_graph(documents))


JOBS = [Job(str(i), f"x = {i}", (f"assert x % 7 and {i} == x",)) for i in range(120)]


def without_durations(outcomes):
    return [(outcome.status, outcome.error, outcome.detail) for outcome in outcomes]


def once_killed(marker: Path, limits: Limits, jobs: list[Job]):
    """Run jobs on a node; kill the worker of the second part once."""
    if jobs[0].id != "0" and not marker.exists():
        marker.touch()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return ON_NODE(limits, jobs)


ON_NODE = sandbox._on_node


def test_a_killed_worker_does_not_change_the_outcomes(joined, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "_on_node", partial(once_killed, tmp_path / "killed"))
    done: list[int] = []
    outcomes = list(run_jobs(JOBS, progress=done.append))
    assert (tmp_path / "killed").exists()
    assert done == [*range(1, len(JOBS) + 1)]
    workers.ENGINE.set("local")
    assert without_durations(outcomes) == without_durations(list(run_jobs(JOBS)))


def test_a_caller_may_stop_before_the_last_result(joined):
    taken = workers.ordered(str, range(100))
    assert next(taken) == "0"
    taken.close()
    assert list(workers.ordered(str, range(5))) == ["0", "1", "2", "3", "4"]


def test_refuses_a_node_without_a_layer_of_the_sandbox(joined):
    inactive = [name for name, active in sandbox.layers().items() if active is not True]
    if inactive:
        pytest.skip(f"layers of the sandbox are not active here: {inactive}")
    node = joined.add(PKG_SANDBOX_DENY="landlock")
    message = rf"^node [\d.]+ \({node.node_id[:8]}\): it lacks layers of the sandbox: Landlock \(switched off"
    try:
        with pytest.raises(UserError, match=message):
            for _ in range(20):  # the scheduler may not use a new node at once
                list(run_jobs(JOBS * 2))
    finally:
        joined.remove_node(node)


def test_refuses_a_node_with_another_version_or_without_a_required_program(joined, monkeypatch):
    with pytest.raises(UserError, match=r"^node .*: /no/such/newlisp is not there"):
        list(run_jobs(JOBS, Limits(packages="stdlib", command=("/no/such/newlisp",))))
    monkeypatch.setattr(workers, "package_digest", lambda: "another")
    with pytest.raises(UserError, match=r"^node .*: its pkg_lib is not that of this machine"):
        list(workers.ordered(str, range(3)))


def test_the_benchmark_of_engines_on_a_few_samples(joined):
    found = bench_engine.measure(60, 1, workers.ENGINE.get())
    assert found["samples"] == 60
    assert found["processors"] == 2
    assert found["same_verdicts"] is True
    assert found["overhead"] == pytest.approx(found["ray_s"] / found["local_s"] - 1, abs=0.02)


def test_passes_exceptions_on(joined):
    with pytest.raises(ZeroDivisionError):
        list(workers.ordered((1).__truediv__, [1, 0]))
