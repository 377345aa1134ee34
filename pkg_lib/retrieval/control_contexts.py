"""Control contexts: those of another task, and the best unit that leaks no solution.

They explain results and cannot be used as methods. Checking for leaks runs hidden tests. The layer that
evaluates methods does so and supplies the check (``Knowledge.leak_check``).
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice

from pkg_lib.core.types import Context, Task, UserError, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.methods import retriever_of

CANDIDATES = 10  # units that are checked for a task before its context stays empty


@dataclass
class LeakFreeContexts:
    """The best of a method's first ``CANDIDATES`` units that leaks no solution; empty if all do.

    Attributes:
        knowledge: The corpus, with a leak check.
        of: The method.
    """

    knowledge: Knowledge
    of: str

    @property
    def method(self) -> str:
        """The name of the control."""
        return f"{self.of}, leak-free"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Retrieve the best unit that leaks no solution for each task.

        Args:
            tasks: Tasks of one benchmark.

        Returns:
            One context per task, in order.

        Raises:
            UserError: There is no leak check, or the corpus has no units of the method.
        """
        find_leaks = self.knowledge.leak_check
        if find_leaks is None:
            raise UserError(
                f"method {self.method} runs hidden tests; retrieve it by evaluating a benchmark"
            )
        chosen = {task.id: Context(task.id, self.method, "") for task in tasks}
        rankings = retriever_of(self.of, self.knowledge).ranked(tasks, CANDIDATES)
        undecided = list(zip(tasks, rankings, strict=True))
        while undecided:  # the tests of one rank run together
            ranked = []
            pairs = []
            for task, ranking in undecided:
                for text, unit in islice(ranking, 1):
                    ranked.append((task, ranking, unit))
                    # Pruning may remove or isolate what leaks; either is a leak.
                    pairs += [(task, text), (task, unit.text or "")]
            leaks = find_leaks(pairs)
            undecided = []
            for whole, pruned, found in zip(leaks[::2], leaks[1::2], ranked, strict=True):
                task, ranking, unit = found
                if whole or pruned:
                    undecided.append((task, ranking))
                else:
                    chosen[task.id] = replace(unit, method=self.method)
        return list(chosen.values())


@dataclass
class SwappedContexts:
    """A method's contexts, each given to another task. A task without a context stays without one.

    The contexts are sorted by digest and shifted by the count of the most frequent text, so that no
    task gets the text that was retrieved for it.

    Attributes:
        knowledge: The corpus.
        of: The method.
    """

    knowledge: Knowledge
    of: str

    @property
    def method(self) -> str:
        """The name of the control."""
        return f"{self.of}, swapped"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Retrieve for all tasks of the benchmark, and swap the contexts.

        Args:
            tasks: Tasks of one benchmark, at least one.

        Returns:
            One context per task, in order.

        Raises:
            UserError: Most contexts are one text.
        """
        every_task = load_benchmark(tasks[0].benchmark)
        retrieved = retriever_of(self.of, self.knowledge).retrieve(every_task)
        given = [context for context in retrieved if context.text]
        given.sort(key=lambda context: (context.sha256, digest(context.task_id)))
        counts = Counter(context.sha256 for context in given)
        shift = max(counts.values(), default=0)
        if 2 * shift > len(given):
            raise UserError(
                f"{shift} of {len(given)} contexts of {self.of} are one text; none can be swapped"
            )
        others = given[shift:] + given[:shift]
        swapped = {c.task_id: other for c, other in zip(given, others, strict=True)}
        empty = Context("", self.method, "")
        contexts = []
        for task in tasks:
            context = swapped.get(task.id, empty)
            swap = replace(
                context,
                task_id=task.id,
                method=self.method,
                defines_task=None,
            )
            contexts.append(swap)
        return contexts
