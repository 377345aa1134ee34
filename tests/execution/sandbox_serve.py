"""A fork server's parent in a setting of its own (sandbox_settings.py): CHECKOUT SITE_PACKAGES PACKAGES USER.

It answers with what the fork server is, then each line of standard input, a job's fields, with the outcome's.
"""

import json
import os
import sys
from dataclasses import asdict


def serve(packages: str) -> None:
    from pkg_lib.core.types import UserError
    from pkg_lib.execution.sandbox import Job, Limits, Worker, check_layers

    worker, refusal = Worker(Limits(packages=packages)), ""
    try:
        check_layers(worker.layers)
    except UserError as e:
        refusal = str(e)
    about = {"layers": worker.layers, "refusal": refusal}
    say(about | {"parent": os.getpid(), "server": worker.process.pid})
    for line in sys.stdin:
        say({"outcome": asdict(worker.run(Job(**json.loads(line)))), "server": worker.process.pid})
    worker.close()


def say(answer: dict) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    checkout, site_packages, allowed, user_id = sys.argv[1:]
    if user := int(user_id):
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    sys.path[0] = checkout
    if site_packages not in sys.path:
        sys.path.append(site_packages)
    serve(allowed)
