"""Run a sandbox worker in a setting of sandbox_settings.py and control it through standard input and output.

    python sandbox_serve.py CHECKOUT SITE_PACKAGES PACKAGES USER

The script first prints a JSON line that describes the fork server. Then it reads jobs, one JSON line each, and
prints their outcomes.
"""

import json
import os
import sys
from dataclasses import asdict


def serve(packages: str) -> None:
    """Run the jobs of standard input until it ends.

    Args:
        packages: The packages that samples may import.
    """
    # Imported here because sys.path is complete only now.
    from pkg_lib.core.types import UserError
    from pkg_lib.execution.sandbox import Job, Limits, Worker, check_layers

    worker = Worker(Limits(packages=packages))
    refusal = ""
    try:
        check_layers(worker.layers)
    except UserError as e:
        refusal = str(e)
    write_line(
        {
            "layers": worker.layers,
            "refusal": refusal,
            "parent": os.getpid(),
            "server": worker.process.pid,
        }
    )
    for line in sys.stdin:
        job = Job(**json.loads(line))
        outcome = worker.run(job)
        write_line({"outcome": asdict(outcome), "server": worker.process.pid})
    worker.close()


def write_line(answer: dict) -> None:
    """Print an answer as one JSON line."""
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    checkout, site_packages, allowed, user_id = sys.argv[1:]
    user = int(user_id)
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    sys.path[0] = checkout
    if site_packages not in sys.path:
        sys.path.append(site_packages)
    serve(allowed)
