"""`--engine`: two nodes of local processes give what this process gives; what goes wrong is told in one line."""

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
from pkg_lib.core.types import UserError
from pkg_lib.execution import sandbox
from pkg_lib.execution.sandbox import Job, Limits, run_jobs

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
        heads = ((i, f"def n{i}():\\n    '''The number {i}.'''\\n") for i in range(60))
        return [Task(f"N/{i}", self.name, h, f"n{i}", ProgramTests(f"assert n{i}() == {i}"), f"    return {i}\\n") for i, h in heads]
    def program(self, task, solution):
        return task.prompt + solution

BENCHMARKS.register(Numbers())
code = "def f{i}(x):\\n    while x > {i}:\\n        x -= 1\\n    return x\\n"
texts = [Document(f"n/{i}", code.replace("{i}", str(i))) for i in range(400)]
CORPORA.register(CorpusSource("numbers-corpus", lambda: texts, "a file"))
MODELS.register(ModelSpec("tiny", FOLDER, "chat", 0.001))
"""
STUDY = "--model tiny --benchmark numbers --corpus numbers-corpus".split()
COLUMNS = ["NoRAG", "VoyageEmb", "Func-PKG", "Block-PKG"]
MAKE = f"""
import sys; sys.path[:0] = [{str(ROOT / "tests")!r}]
from fakes import FakeBackend
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
answer = lambda r: f"    return {{int(r.task_id[2:]) * (int(r.task_id[2:]) % 3 > 0)}}\\n" if r.sample == 0 else ""
print(Evaluator(Results("tiny", "numbers", "numbers-corpus"), backend=FakeBackend(answer)).generate({COLUMNS!r}))
"""


def command(*words: str, code: int = 0, **variables: str) -> str:
    """What `python ...` says, `-m pkg_lib` put before a command; it must end with the exit code."""
    about = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"} | variables
    called = [sys.executable, "-P", *(() if words[0] == "-c" else ("-m", "pkg_lib")), *words]
    done = subprocess.run(called, env=about, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["spark", "local:1", "ray:", "ray:host", "ray:host:port", "ray:host:70000"]
)
def test_an_unknown_engine_is_named(name):
    with pytest.raises(
        UserError, match=rf"unknown engine '{name}'; .*choose from: local, ray, ray:HOST:PORT"
    ):
        workers.engine_name(name)


def test_mistakes_are_told_in_one_line(tmp_path):
    said = command("--engine", "spark", "--dry-run", code=2)
    assert said == "error: unknown engine 'spark'; choose from: local, ray, ray:HOST:PORT\n"
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    said = command("graph", "textbook", "--engine", "ray", code=2, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert said == 'error: engine ray needs the package ray: pip install -e ".[cluster]"\n'


def test_ray_is_not_loaded_where_it_is_not_asked_for(tmp_path):
    (tmp_path / "ray.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("def f():\n    return 1\n")
    assert "1 documents" in command(
        "graph", f"source:{tmp_path}/code", PYTHONPATH=f"{tmp_path}:{ROOT}"
    )


def test_a_cluster_that_is_not_there_is_a_mistake_of_one_line(tmp_path):
    pytest.importorskip("ray", reason='ray is not installed: pip install -e ".[cluster]"')
    with socket.socket() as bound:  # taken, and nobody listens
        bound.bind(("127.0.0.1", 0))
        engine = f"ray:127.0.0.1:{bound.getsockname()[1]}"
        said = command("--engine", engine, code=2, PKG_RESULTS=str(tmp_path / "results"))
    assert said.startswith(
        f"error: no Ray cluster at {engine[4:]} (Connection refused); start it with"
    )
    assert said.count("\n") == 1 and not (tmp_path / "results").exists()


def test_what_is_no_cluster_is_a_mistake_of_one_line(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason='ray is not installed: pip install -e ".[cluster]"')
    monkeypatch.setattr(workers, "HEALTH", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as other:  # it listens, and says nothing
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(
            UserError, match=f"the server at {address} is not a healthy Ray cluster"
        ):
            workers._join(address)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with a processor each; `cluster.add(NAME=VALUE)` starts another with such an environment."""
    pytest.importorskip("ray", reason='ray is not installed: pip install -e ".[cluster]"')
    import ray
    from ray.cluster_utils import Cluster

    os.environ |= {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    nodes = Cluster()
    about = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    nodes.add = lambda **variables: nodes.add_node(**about, env_vars=variables)
    nodes.add()
    nodes.add()
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # no node has the tests
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def joined(cluster):
    """The cluster, as the engine of this process."""
    workers.use(f"ray:{cluster.address}")
    yield cluster
    workers.ENGINE.set("local")


def untimed(value):
    """Without the seconds that samples took."""
    if isinstance(value, dict):
        return {k: untimed(v) for k, v in value.items() if k != "seconds"}
    return [untimed(v) for v in value] if isinstance(value, list) else value


def contents(folder: Path) -> dict[str, object]:
    """Map each path to its bytes, or to the rows of a JSONL file without times.

    Digests of files that contain times are left out. `leaderboard.made.json` consists of them.
    """
    files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    files.pop("leaderboard.made.json", None)
    return {
        name: untimed(read_rows(p))
        if ".jsonl" in p.suffixes
        else re.sub(rb'<!-- [0-9a-f]{64} -->|"from": "[0-9a-f]{64}"', b"", p.read_bytes())
        for name, p in files.items()
    }


def near(one, other):
    """Equal but for the sixth digit of a cosine.

    A node computes vectors with one thread, the local engine with all; for batches of some sizes and on some
    processors (measured on one with AMX) they are 2e-7 apart.
    """
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    return abs(one - other) < 5e-6 if isinstance(one, float) else one == other


def test_a_study_has_the_same_results(cluster, tmp_path, tiny_model):
    (tmp_path / "plugin.py").write_text(PLUGIN.replace("FOLDER", repr(str(tiny_model))))
    first, plugins = tmp_path / "made", {"PKG_PLUGINS": str(tmp_path / "plugin.py")}
    command("-c", MAKE, PKG_RESULTS=str(first), PKG_CACHE=str(tmp_path / "cache-made"), **plugins)
    found = {}
    for engine in ("local", f"ray:{cluster.address}"):
        results, cache = tmp_path / engine[:3], tmp_path / f"cache-{engine[:3]}"
        shutil.copytree(first / "cache", results / "cache")
        places = {"PKG_RESULTS": str(results), "PKG_CACHE": str(cache)} | plugins
        columns = [word for column in COLUMNS for word in ("--method", column)]
        said = command(*STUDY, *columns, "--notebook", "rq1_code_pkg", "--engine", engine, **places)
        assert "numbers-corpus: 60 tasks, 0 completions generated" in said
        command(
            "graph",
            "numbers-corpus",
            "--output",
            str(results / "graph"),
            "--engine",
            engine,
            **places,
        )
        found[engine[:3]] = contents(results)
    assert [f for f, of in found["loc"].items() if not near(of, found["ray"].get(f, ""))] == []
    assert found["loc"].keys() == found["ray"].keys()
    verdicts = found["ray"]["runs/numbers/tiny/none/norag/samples.jsonl.gz"]
    assert {row["status"] for row in verdicts} == {"passed", "failed"} and len(verdicts) == 60
    assert (tmp_path / "ray" / "index.html").exists() and any(
        (tmp_path / "ray" / "graph").iterdir()
    )


JOBS = [Job(str(i), f"x = {i}", (f"assert x % 7 and {i} == x",)) for i in range(120)]


def known(outcomes):
    return [(o.status, o.error, o.detail) for o in outcomes]


def once_killed(marker: Path, limits: Limits, jobs: list[Job]):
    """The second part's worker is killed in the middle, the first time."""
    if jobs[0].id != "0" and not marker.exists():
        marker.touch()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return ON_NODE(limits, jobs)


ON_NODE = sandbox._on_node


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(joined, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "_on_node", partial(once_killed, tmp_path / "killed"))
    done: list[int] = []
    outcomes = known(run_jobs(JOBS, progress=done.append))
    assert (tmp_path / "killed").exists() and done == [*range(1, len(JOBS) + 1)]
    workers.ENGINE.set("local")
    assert outcomes == known(run_jobs(JOBS))


def test_a_caller_that_stops_early_leaves_a_cluster_that_works(joined):
    taken = workers.ordered(str, range(100))
    assert next(taken) == "0"
    taken.close()
    assert list(workers.ordered(str, range(5))) == ["0", "1", "2", "3", "4"]


def test_a_node_that_lacks_a_layer_is_refused_by_name(joined):
    if inactive := [name for name, on in sandbox.layers().items() if on is not True]:
        pytest.skip(f"layers of the sandbox are not active here: {inactive}")
    node = joined.add(PKG_SANDBOX_DENY="landlock")
    said = rf"^node [\d.]+ \({node.node_id[:8]}\): it lacks layers of the sandbox: Landlock \(switched off"
    try:
        with pytest.raises(UserError, match=said):
            for _ in range(20):  # a new node is not given work at once
                list(run_jobs(JOBS * 2))
    finally:
        joined.remove_node(node)


def test_a_node_with_another_program_or_without_what_jobs_need_is_refused(joined, monkeypatch):
    with pytest.raises(UserError, match=r"^node .*: /no/such/newlisp is not there"):
        list(run_jobs(JOBS, Limits(packages="stdlib", command=("/no/such/newlisp",))))
    monkeypatch.setattr(workers, "package_digest", lambda: "another")
    with pytest.raises(UserError, match=r"^node .*: its pkg_lib is not that of this machine"):
        list(workers.ordered(str, range(3)))


def test_the_benchmark_small(joined):
    found = bench_engine.measure(60, 1, workers.ENGINE.get())
    assert (found["samples"], found["processors"], found["same_verdicts"]) == (60, 2, True)
    assert found["overhead"] == pytest.approx(found["ray_s"] / found["local_s"] - 1, abs=0.02)


def test_errors_come_as_they_are(joined):
    with pytest.raises(ZeroDivisionError):
        list(workers.ordered((1).__truediv__, [1, 0]))
