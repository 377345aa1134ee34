"""The committed study, rendered again in this process: results/tables as the notebooks write them now.

python tests/golden.py [NAME ...]    says what differs of the notebooks whose label holds a name (all if none)
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import notebook_code

from pkg_lib.core.store import ROOT
from pkg_lib.evaluation import study

COMMITTED = ROOT / "results"
RENDERED = (
    "tables",
    "figures",
    "notebooks",
    "site",
    "index.html",
    "leaderboard.csv",
    "leaderboard.json",
)


def copy_inputs(folder: Path) -> Path:
    """Results without what is rendered: links to the committed runs."""
    for path in COMMITTED.iterdir():
        if path.name not in RENDERED:
            (folder / path.name).symlink_to(path)
    return folder


def work() -> list[study.NotebookJob]:
    """Every notebook of the study, in the order in which they run."""
    return study.plan(study.Choice()).jobs


def tables(folder: Path, job: study.NotebookJob) -> dict[str, str]:
    """Name -> text of the files that a notebook leaves in a folder of tables."""
    return {p.name: p.read_text("utf8") for p in sorted((folder / "tables").glob(f"{job.stem}.*"))}


def differences(job: study.NotebookJob, rendered: Path) -> list[str]:
    """The tables that are not as they are committed."""
    notebook_code.run(job.notebook, **job.parameters)
    now, then = tables(rendered, job), tables(COMMITTED, job)
    return [name for name in sorted(now.keys() | then.keys()) if now.get(name) != then.get(name)]


def main(names: list[str]) -> int:
    import matplotlib

    matplotlib.use("agg")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PKG_RESULTS"] = str(copy_inputs(Path(folder)))
        os.chdir(study.NOTEBOOKS)
        wrong = 0
        for job in work():
            if not names or any(name in job.label for name in names):
                differing = differences(job, Path(folder))
                wrong += len(differing)
                print(f"{job.label}: {', '.join(differing) or 'as committed'}", flush=True)
                kept = Path("/tmp/golden_differences")
                for name in differing:
                    kept.mkdir(exist_ok=True)
                    source = Path(folder) / "tables" / name
                    (kept / name).write_text(source.read_text("utf8") if source.exists() else "")
        return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
