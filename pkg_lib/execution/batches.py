"""Jobs that have limits of their own: those of equal limits share the workers of one sandbox."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from pkg_lib.core.types import Outcome
from pkg_lib.execution.sandbox import Job, Limits, run_jobs


def run_with_limits(
    jobs: Sequence[tuple[Job, Limits]],
    progress: Callable[[int], object] | None = None,
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
    positions: defaultdict[Limits, list[int]] = defaultdict(list)
    for position, (_, limits) in enumerate(jobs):
        positions[limits].append(position)
    outcomes: dict[int, Outcome] = {}
    for limits, same_limits in positions.items():
        batch = run_jobs([jobs[position][0] for position in same_limits], limits)
        for position, outcome in zip(same_limits, batch, strict=True):
            outcomes[position] = outcome
            if progress:
                progress(len(outcomes))
    return [outcomes[position] for position in range(len(jobs))]
