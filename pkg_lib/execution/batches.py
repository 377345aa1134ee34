"""Run jobs that have limits of their own: those of equal limits share the workers of one sandbox."""

from collections.abc import Callable, Sequence

from pkg_lib.core.types import Outcome
from pkg_lib.execution.sandbox import Job, Limits, run_jobs


def run_with_limits(
    jobs: Sequence[tuple[Job, Limits]], progress: Callable[[int], None] | None = None
) -> list[Outcome]:
    """Execute jobs, each within its own limits.

    Args:
        jobs: Each job with the limits of its process.
        progress: Called with the number of finished jobs each time one finishes.

    Returns:
        One outcome per job, in order.

    Raises:
        UserError: The sandbox cannot start.
    """
    places: dict[Limits, list[int]] = {}
    for place, (_, limits) in enumerate(jobs):
        places.setdefault(limits, []).append(place)
    outcomes: dict[int, Outcome] = {}
    for limits, of_limits in places.items():
        judged = run_jobs([jobs[place][0] for place in of_limits], limits)
        for place, outcome in zip(of_limits, judged, strict=True):
            outcomes[place] = outcome
            if progress:
                progress(len(outcomes))
    return [outcomes[place] for place in range(len(jobs))]
