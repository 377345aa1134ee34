"""How Algorithm 1 is carried out where the paper and this project's stored runs differ, one option each.

Two values are used. `STORED_RUNS` is the loop of the methods that results/ holds. `AS_PUBLISHED` is the
paper's loop; its methods have names such as "EVOR, as published". Both are carried out by the same code,
evor_loop.py. docs/paper_evor.md lists what `AS_PUBLISHED` still does differently from the paper.
"""

from dataclasses import dataclass

WHOLE = "programs and pairs"
ADDED = ("lines", "programs", WHOLE)  # the values of `LoopOptions.added`


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Options of the loop. Each docstring names the passage of the EVOR paper that it follows.

    The defaults are those of the stored runs.

    Attributes:
        starts_with_scripts: What the knowledge base K holds before the first round, beside the
            documentation. True, as in Appendix D: a model writes a short script of sample usage for each
            documented function. Scripts that run are snippets, the others are pairs (code, error). False:
            the documentation's own examples that run.
        question_retrieves_again: What retrieves from round 1 on. False, as in line 9 of Algorithm 1 and
            in Section 2.1: the evolved query q_i alone. True: the rankings of q_i and of the question n
            take turns.
        added: What enters K after a round, one of ADDED. "programs and pairs", as in lines 14 and 16 of
            Algorithm 1: the whole program p^i if it ran, else the pair (p^i, F^i). "lines": the lines of
            p^i that call a library, else its error with the line. "programs": as "lines", but p^i is kept
            whole if it ran, one program for each set of called functions.
        sampled_from: The first round whose program is sampled instead of decoded greedily. 0 means that no
            round is, as in the authors' run.py (``temperature`` 0) and model.py (``do_sample`` false).
        keeps_reflections: What a prompt of Reflexion holds. True, as in Section 3.1: the memory, which
            keeps the reflections of all rounds. False: the last draft with its reflection.
        executes_subgoals: How ExeDec decomposes a task. True, as in Section 3.1: a subgoal is predicted,
            a subprogram written for it and executed, and so on; the subprograms are combined as the
            answer. False: the steps are listed before the program is written, and nothing is executed.
        window: Tokens of a prompt and its answer together, at most those of the model. 4,096 in
            Section 3.2 and Appendix F. 0: a context has the tokens of `EvorBenchmark.budgets`.
        uncalled_ends: Whether a draft that was called on no test input, because M_t wrote no call that can be
            used, ends its task. False: its functions were never executed, so the task goes on. True: it
            counts as a program that ran.
        ranked: How many texts of a source are ranked for a query; the budget holds some of them.
        hints_at_missing_names: What follows a task's own error in its prompt. False, as in item 2 of
            Appendix F: nothing. True: that a name does not exist, and where to look instead.
    """

    starts_with_scripts: bool = False
    question_retrieves_again: bool = True
    added: str = "lines"
    sampled_from: int = 2
    keeps_reflections: bool = False
    executes_subgoals: bool = False
    window: int = 0
    uncalled_ends: bool = True
    ranked: int = 40
    hints_at_missing_names: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        if self.added not in ADDED:
            raise ValueError(f"added is {self.added!r}, none of {', '.join(ADDED)}")


STORED_RUNS = LoopOptions()
AS_PUBLISHED = LoopOptions(
    starts_with_scripts=True,
    question_retrieves_again=False,
    added=WHOLE,
    sampled_from=0,
    keeps_reflections=True,
    executes_subgoals=True,
    window=4096,
    uncalled_ends=False,
    ranked=400,
    hints_at_missing_names=False,
)
