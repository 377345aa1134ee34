"""Algorithm 1 of the EVOR paper. One iteration of its loop is `EvorRound.retrieve`.

    line   paper                                      here
    1      n                                          `task.prompt`
           M, M_q, M_t                                `EvorRun.generator`; `EvorRun.ask`
           R, K                                       `TextIndex` (text_index.py), `KnowledgeBase`
           K before the first iteration (App. D)      `EvorRound._first_knowledge`
           m                                          `EvorMethod.rounds`
           E                                          `EvorRun.execute`
    2      I = [], p = null                           `Iteration`, empty in round 0
    3      for i = 0, ..., m do                       `Evaluator.generate` over `completion_stages`;
                                                      i is `EvorRound.number`
    4-8    q_i <- n if i = 0,                         `EvorRound._queries`
           else M_q(n, p^(i-1), I, F^(i-1))
    9      K_r <- R(q_i, K)                           `KnowledgeBase.retrieve`
    10     p^i <- M(n, K_r)                           `Evaluator.prompts`, `EvorBenchmark.prompt`,
                                                      `Generator.complete`
    11     p <- p^i                                   `Generator.complete` stores the completion,
                                                      `Results.solutions` extracts the program
    12     F^i = E(p^i, I)                            `EvorRun.drafts`
    13-14  if F^i is success: K <- K + {p^i}          `EvorRound._knowledge_base`
    15-17  else: K <- K + {(p^i, F^i)}                `EvorRound._knowledge_base`
    18-20  if i = 0: I <- M_t(n, p^i)                 `EvorRound._test_inputs`
    21-23  if the condition is satisfied: break       `has_ended`
    24     end for                                    `Evaluator.generate`
    25     return p                                   `BenchmarkResults.last_verdicts` judges it

An iteration i is a method of its own, METHOD@i, which needs METHOD@(i-1). The evaluation pipeline
(evaluation/pipeline.py) is the loop: it retrieves the contexts of a round here, generates the programs
p^i and stores them, and goes on to the next round. So `retrieve` begins where the algorithm executes
the drafts of the earlier rounds: lines 18 to 20 of round 0 and lines 12 and 21 to 23 of each earlier
round come first. Lines 4 to 8 of iteration i follow, then lines 13 to 17 of the earlier rounds, since M_q
does not read K, and line 9.
`evor_registration.py` registers the rounds with what each needs, and `completion_stages`
(retrieval/methods.py) orders them for the pipeline.

Two kinds of methods share this code. Those of the stored runs, such as "EVOR", differ from the paper in
several points. Those with the paper's own loop are called "EVOR, as published". `EvorMethod.loop` has one
option for each point (loop_options.py): what K starts with, what retrieves, what enters K, how answers are
decoded, Reflexion's memory, ExeDec's subgoals, and the length of a prompt.

The algorithm leaves some points open. For both kinds they are settled as follows.

- The test inputs I are written after the first draft and before it is executed, as Section 2.1 says. As
  printed, the first draft would run on none.
- Rounds are synchronous: all tasks finish a round before the knowledge base grows, so that the
  order of tasks decides nothing.
- A task that has ended keeps its context in later rounds, and so its answer
  (`StoredAnswers._completions_by_prompt_digest`).
- A context after the first round ends with the task's own error. (Appendix F puts errors into the
  prompt; line 10 does not.) This holds for every method whose sources include feedback, also where
  only the query or only the knowledge evolves.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from pkg_lib.core.types import Context, FurtherPrompts, Generation, Task, UnavailableError
from pkg_lib.papers.evor.code_snippets import snippets_of
from pkg_lib.papers.evor.evor_methods import EvorMethod, tokens_of
from pkg_lib.papers.evor.evor_run import ANSWER_TOKENS, Calls, Drafts, EvorRun
from pkg_lib.papers.evor.execution_feedback import Draft, Feedback
from pkg_lib.papers.evor.knowledge_base import (
    TITLES,
    TITLES_OF_PROGRAMS,
    ContextRequest,
    KnowledgeBase,
    RetrievedKnowledge,
)
from pkg_lib.papers.evor.loop_options import AS_PUBLISHED, WHOLE
from pkg_lib.papers.evor.prompt_counts import PromptCounts
from pkg_lib.papers.evor.query_evolution import QUERY_RULES, missing_attribute
from pkg_lib.papers.evor.subgoals import PARTS_TOKENS, Decomposition
from pkg_lib.papers.evor.templates import PROMPTS

EQUAL_FEEDBACKS = 3  # in consecutive rounds, which end a task (Section 2.3)
COUNTED_METHOD = "EVOR"  # Table 6 counts the test inputs of this method only


@dataclass
class Iteration:
    """The state of Algorithm 1 at the start of iteration i.

    Attributes:
        history: p^j and F^j of every earlier round j < i.
        active: The tasks that have not ended.
        inputs: I of each task; empty in round 0.
        uncalled_ends: As in `LoopOptions`.
        answers: Answers to all other prompts than M(n, K_r), such as queries and inputs. Their tokens are
            counted.
    """

    history: list[Drafts] = field(default_factory=list)
    active: list[Task] = field(default_factory=list)
    inputs: Calls = field(default_factory=dict)
    uncalled_ends: bool = True
    answers: list[dict[str, Generation]] = field(default_factory=list)

    @property
    def last(self) -> Drafts:
        """p^(i-1) and F^(i-1) by task; empty in the first round."""
        return self.history[-1] if self.history else {}

    def is_active(self, task: Task) -> bool:
        """Tell whether a task takes part in this iteration.

        A task is not active while its last draft has no feedback, which a fault of the sandbox causes.

        Args:
            task: The problem n.
        """
        if not self.history:
            return True
        if task.id not in self.last:
            return False
        drafts = [round_drafts[task.id] for round_drafts in self.history if task.id in round_drafts]
        feedbacks = [draft.feedback for draft in drafts]
        may_end_on_success = self.uncalled_ends or bool(self.inputs.get(task.id))
        return not has_ended(feedbacks, may_end_on_success)


@dataclass
class EvorRound:
    """One iteration of Algorithm 1 for all tasks.

    Attributes:
        run: The executor E, and the models M_q and M_t.
        method: The variant of EVOR.
        number: i, counted from 0.
    """

    run: EvorRun
    method: EvorMethod
    number: int

    @property
    def name(self) -> str:
        """The round's name, such as "EVOR@2"."""
        return self.method.round_name(self.number)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Run Algorithm 1 from line 12 of iteration i - 1 to line 9 of iteration i.

        Args:
            tasks: The problems n.

        Returns:
            One context K_r per task, in order. A task that has ended keeps the context of its last
            round, whose answer is known.
        """
        # Line 2: I = [], p = null.
        iteration = Iteration(uncalled_ends=self.method.loop.uncalled_ends)
        if self.number > 0:
            self._require_earlier_rounds(tasks)
            # Lines 18-20 of round 0: I <- M_t(n, p^0).
            iteration.inputs = self._test_inputs(iteration)
            # Line 12 of all earlier rounds: F^j = E(p^j, I).
            for earlier in self.method.round_names[: self.number]:
                drafts = self.run.drafts(earlier, iteration.inputs)
                iteration.history.append(drafts)
        # Lines 21-23: a task ends if its termination condition is satisfied.
        iteration.active = [task for task in tasks if iteration.is_active(task)]
        # Lines 4-8: q_i <- n in round 0, else q_i <- M_q(n, p^(i-1), I, F^(i-1)).
        queries = self._queries(iteration)
        # Lines 13-17 of all earlier rounds: K <- K + {p^j} or K <- K + {(p^j, F^j)}.
        knowledge_base = self._knowledge_base(iteration)
        # Line 9: K_r <- R(q_i, K).
        introductions = self._introductions(iteration)
        endings = self._endings(iteration, knowledge_base)
        budgets = self._budgets(iteration)
        requests = list(map(ContextRequest, queries, introductions, endings, budgets))
        if self.method.executes_subgoals:
            # ExeDec writes the parts of the program with K_r, and M combines them in line 10.
            requests = self._with_parts(iteration, requests, knowledge_base)
        retrieved = self._retrieved(knowledge_base, requests)
        # Lines 10 and 11, p <- p^i <- M(n, K_r): the pipeline generates from these contexts.
        return self._contexts(tasks, iteration, requests, retrieved)

    def _require_earlier_rounds(self, tasks: Sequence[Task]) -> None:
        """Raise UnavailableError if a round before this one lacks a program."""
        for earlier in self.method.round_names[: self.number]:
            completions = self.run.results.completions(earlier)
            if not all(task.id in completions for task in tasks):
                raise UnavailableError(
                    f"{self.name} goes on from {earlier}: complete {earlier} first"
                )

    def _retrieved(
        self,
        knowledge_base: KnowledgeBase,
        requests: Sequence[ContextRequest],
    ) -> list[RetrievedKnowledge]:
        return knowledge_base.retrieve(
            requests,
            self.method,
            self.run.benchmark.budgets,
            self.run.generator.measure,
        )

    @property
    def about(self) -> dict[str, Any]:
        """The token budgets and options of the method, which are stored with the contexts."""
        budgets = dict(self.run.benchmark.budgets)
        if self.method.loop != AS_PUBLISHED:
            # All other options follow from the method's name.
            budgets["context"] = self.method.context or budgets["context"]
            return {"budgets": budgets}
        del budgets["context"]
        budgets["window"] = self._window
        return {"budgets": budgets, "loop": asdict(self.method.loop)}

    def further_prompts(self, tasks: Sequence[Task]) -> list[FurtherPrompts]:
        """Bound what this round prompts for beside its programs, for a dry run.

        Args:
            tasks: The problems n.

        Returns:
            One entry per kind of prompt.
        """
        counts = PromptCounts(self.run.benchmark, self.method, tasks)
        return counts.further_prompts(self.number)

    # The length of a prompt (Section 3.2 and Appendix F)

    @cached_property
    def _window(self) -> int:
        """Most tokens of a prompt and its answer together: the method's limit, or the model's if lower."""
        model_window = self.run.generator.context_window
        method_window = self.method.loop.window
        return min(method_window, model_window or method_window)

    def _budgets(self, iteration: Iteration) -> list[int | None]:
        """The tokens of each active task's context: what the answer and the rest of the prompt leave."""
        if not self.method.loop.window:
            return [None] * len(iteration.active)
        benchmark = self.run.benchmark
        generator = self.run.generator
        budgets: list[int | None] = []
        for task in iteration.active:
            without_context = benchmark.prompt(task, "", generator.spec.style)
            used = benchmark.budgets["answer"] + generator.measure(without_context)
            budgets.append(max(0, self._window - used))
        return budgets

    # Lines 18-20

    def _test_inputs(self, iteration: Iteration) -> Calls:
        """I <- M_t(n, p^0): the test inputs of each task."""
        first_round = self.method.round_name(0)
        answers = self.run.input_answers(first_round, self.method.input_model)
        if self.number == 1:  # later rounds reuse them, so their tokens are spent once
            iteration.answers.append(answers)
        inputs = self.run.inputs_in(answers)
        if self.method.name == COUNTED_METHOD:
            self.run.count_valid_inputs(inputs)
        return inputs

    # Lines 4-8

    def _queries(self, iteration: Iteration) -> list[tuple[str, ...]]:
        """q_i of each active task; if the loop says so, after the first round also n."""
        if not iteration.last or self.method.query == "question":  # q_i <- n
            return [(task.prompt,) for task in iteration.active]
        rule = QUERY_RULES.get(self.method.query)
        if not rule:  # q_i <- M_q(n, p^(i-1), I, F^(i-1))
            template = PROMPTS["queries"][self.method.query]
            answers = self._answers("query", template, iteration)
        queries: list[tuple[str, ...]] = []
        for task in iteration.active:
            draft = iteration.last[task.id]
            query = rule(draft) if rule else answers[task.id].raw
            if self.method.loop.question_retrieves_again:
                queries.append((query, task.prompt))
            else:
                queries.append((query,))
        return queries

    def _answers(
        self,
        what: str,
        template: str,
        iteration: Iteration,
    ) -> dict[str, Generation]:
        """The answers of M_q about the last draft of each active task."""
        answers = self._answers_about(f"{self.name}.{what}", template, iteration, iteration.last)
        iteration.answers.append(answers)
        return answers

    def _answers_about(
        self,
        file: str,
        template: str,
        iteration: Iteration,
        drafts: Drafts,
    ) -> dict[str, Generation]:
        """The answers of M_q about some round's draft of each active task."""
        prompts = {}
        for task in iteration.active:
            fields = self._template_fields(task, iteration, drafts.get(task.id))
            prompt = template.format(**fields)
            prompts[task.id] = prompt.strip()
        return self.run.ask(
            file=file,
            prompts=prompts,
            model=self.method.query_model,
            max_tokens=ANSWER_TOKENS,
        )

    def _template_fields(
        self,
        task: Task,
        iteration: Iteration,
        draft: Draft | None,
    ) -> dict[str, str]:
        """What the templates of prompts.toml may name: n, I, and p and F of some round."""
        inputs = iteration.inputs.get(task.id, ())
        fields = {
            "task": task.prompt,
            "program": "",
            "feedback": "",
            "inputs": "\n".join(inputs) or "none",
            "reward": "0",
            "subject": self.run.benchmark.subject,
        }
        if draft:
            fields["program"] = self.run.benchmark.fenced(draft.program)
            fields["feedback"] = draft.feedback.text
            fields["reward"] = str(int(draft.feedback.ok))
        return fields

    # Lines 13-17

    def _knowledge_base(self, iteration: Iteration) -> KnowledgeBase:
        """K with what the earlier rounds added, if it grows (Section 2.2.2)."""
        programs, pairs = self._first_knowledge()
        history = iteration.history if self.method.grows else []
        for drafts in history:
            for draft in drafts.values():
                if draft.feedback.ok:  # lines 13 and 14: K <- K + {p^j}
                    programs.append((draft.program, draft.task.prompt))
                else:  # lines 15 and 16: K <- K + {(p^j, F^j)}
                    pairs.append((draft.program, draft.feedback))
        collected, searched = self._entries(programs, pairs)
        benchmark = self.run.benchmark
        if "web" in self.method.sources:
            collected["web"] = benchmark.pages()
        loop = self.method.loop
        holds_programs = loop.added == WHOLE
        return KnowledgeBase(
            benchmark.documents(),
            collected,
            benchmark.tokenizer,
            searched,
            language=benchmark.language if holds_programs else "python",
            titles=TITLES_OF_PROGRAMS if holds_programs else TITLES,
            ranked=loop.ranked,
        )

    def _first_knowledge(self) -> tuple[list[tuple[str, str]], list[tuple[str, Feedback]]]:
        """K before the first round, beside the documentation (Appendix D).

        Returns:
            Programs that run, each with what its task gives, here nothing; and pairs (code, error).
        """
        programs = []
        pairs = []
        if self.method.writes_scripts:
            for script, feedback in self.run.sample_scripts(self._window):
                if feedback.ok:
                    programs.append((script, ""))
                else:
                    pairs.append((script, feedback))
        elif not self.method.loop.starts_with_scripts:
            programs = [(example, "") for example in self.run.verified_examples]
        return programs, pairs

    def _entries(
        self,
        programs: Sequence[tuple[str, str]],
        pairs: Sequence[tuple[str, Feedback]],
    ) -> tuple[dict[str, Sequence[str]], dict[str, Sequence[str]]]:
        """The entries of K by source: as a context shows them, and as they are searched if that is more."""
        added = self.method.loop.added
        shown: dict[str, Sequence[str]] = {}
        searched: dict[str, Sequence[str]] = {}
        if added == WHOLE:
            whole = [program for program, _ in programs]
            shown["snippets"] = list(dict.fromkeys(whole))
            errors = []
            with_programs = []
            for program, feedback in dict.fromkeys(pairs):
                errors.append(feedback.text)
                with_programs.append(f"{program}\n{feedback.text}")
            shown["feedback"] = errors
            searched["feedback"] = with_programs
            return shown, searched
        shown["snippets"] = snippets_of(programs, whole_programs=added == "programs")
        errors = [feedback.text for _, feedback in pairs]
        shown["feedback"] = list(dict.fromkeys(errors))
        return shown, searched

    # The parts of a context around what is retrieved

    def _introductions(self, iteration: Iteration) -> list[str]:
        """What the model writes before the program: a reflection (Reflexion) or subgoals (ExeDec)."""
        none = [""] * len(iteration.active)
        thinks = self.method.thinks
        if thinks == "reflection" and self.method.loop.keeps_reflections:
            return self._memories(iteration)
        if self.method.executes_subgoals:
            return none  # they need K_r; see `_with_parts`
        thought = PROMPTS["thoughts"].get(thinks)
        if thought is None:
            return none
        template = thought["ask"]
        if "{feedback}" in template and not iteration.last:
            return none
        answers = self._answers(thinks, template, iteration)
        texts = []
        for task in iteration.active:
            fields = self._template_fields(task, iteration, iteration.last.get(task.id))
            answer = answers[task.id].raw.strip()
            text = thought["shown"].format(answer=answer, **fields)
            texts.append(text.strip())
        return texts

    def _memories(self, iteration: Iteration) -> list[str]:
        """The memory of Reflexion (Section 3.1): a reflection on the draft of each earlier round.

        It takes at most half of the context; beyond that the oldest reflections are left out.
        """
        thought = PROMPTS["thoughts"]["memory"]
        memories: dict[str, list[str]] = {task.id: [] for task in iteration.active}
        for number, drafts in enumerate(iteration.history, 1):
            file = f"{self.method.round_name(number)}.{self.method.thinks}"
            answers = self._answers_about(file, thought["ask"], iteration, drafts)
            for task_id, answer in answers.items():
                memories[task_id].append(answer.raw.strip())
            if number == self.number:  # the tokens of the others were spent in earlier rounds
                iteration.answers.append(answers)
        texts = []
        for task, budget in zip(iteration.active, self._budgets(iteration), strict=True):
            texts.append(self._memory_text(thought["shown"], memories[task.id], budget))
        return texts

    def _memory_text(self, template: str, memory: Sequence[str], budget: int | None) -> str:
        """The newest reflections that fit, oldest first; "" without any."""
        for first in range(len(memory)):
            lines = [f"{number}. {text}" for number, text in enumerate(memory[first:], 1)]
            shown = template.format(reflections="\n".join(lines)).strip()
            if budget is None or self.run.generator.measure(shown) <= budget // 2:
                return shown
        return ""

    def _with_parts(
        self,
        iteration: Iteration,
        requests: Sequence[ContextRequest],
        knowledge_base: KnowledgeBase,
    ) -> list[ContextRequest]:
        """The requests with the parts of each program, which ExeDec wrote and executed with K_r."""
        narrower = []
        for request in requests:
            budget = None
            if request.budget is not None:
                budget = max(0, request.budget - PARTS_TOKENS)
            narrower.append(replace(request, budget=budget))
        knowledge = {}
        retrieved = self._retrieved(knowledge_base, narrower)
        for task, found in zip(iteration.active, retrieved, strict=True):
            knowledge[task.id] = found.text
        decomposition = Decomposition(self.run, self.name, self.method.query_model, knowledge)
        decomposition.write(iteration.active)
        iteration.answers += decomposition.answers
        with_parts = []
        for task, request in zip(iteration.active, requests, strict=True):
            with_parts.append(replace(request, introduction=decomposition.combined(task)))
        return with_parts

    def _endings(self, iteration: Iteration, knowledge_base: KnowledgeBase) -> list[str]:
        """The task's own error (Appendix F), and what to do if a name does not exist."""
        sources = self.method.sources
        if "feedback" not in sources or not iteration.last:
            return [""] * len(iteration.active)
        names = []
        for task in iteration.active:
            name = ""
            if "documents" in sources and self.method.loop.hints_at_missing_names:
                name = missing_attribute(iteration.last[task.id].feedback.error)
            names.append(name)
        nearest = knowledge_base.nearest_documents(names, self.method)
        parts = PROMPTS["failed"]
        texts = []
        for task, name, documents in zip(iteration.active, names, nearest, strict=True):
            template = parts["draft"]
            if name and documents:
                template += parts["nearest"]
            elif name:
                template += parts["absent"]
            fields = self._template_fields(task, iteration, iteration.last[task.id])
            text = template.format(name=name, nearest=documents, **fields)
            texts.append(text.strip())
        return texts

    # What the pipeline needs for lines 10 and 11

    def _contexts(
        self,
        tasks: list[Task],
        iteration: Iteration,
        requests: list[ContextRequest],
        retrieved: list[RetrievedKnowledge],
    ) -> list[Context]:
        """The contexts of this round, and those that ended tasks keep."""
        spent: Counter[str] = Counter()
        for answers in iteration.answers:
            for task_id, answer in answers.items():
                spent[task_id] += tokens_of(answer)
        contexts = {}
        for task, request, knowledge in zip(iteration.active, requests, retrieved, strict=True):
            contexts[task.id] = Context(
                task_id=task.id,
                method=self.name,
                text=knowledge.text,
                source="; ".join(knowledge.documents),
                defines_task=False,
                query=request.queries[0],
                spent=spent[task.id],
                recall=self.run.benchmark.recall(task, knowledge.documents),
            )
        if self.number > 0:
            # An ended task keeps the context of its last round, and therefore that round's answer.
            # In round 1, the test inputs of its first draft are counted as well.
            last_round = self.method.round_name(self.number - 1)
            for context in self.run.results.contexts(last_round):
                task_id = context.task_id
                if task_id not in contexts:
                    contexts[task_id] = replace(context, spent=spent.get(task_id))
        return [contexts[task.id] for task in tasks]


@dataclass
class OracleRetriever:
    """The method "Oracle": the documentation that the reference solution needs (Section 2.4).

    Attributes:
        run: The model on a benchmark.
    """

    run: EvorRun

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """Return the oracle documentation of each task.

        Args:
            tasks: The problems n.

        Returns:
            One context per task, in order.
        """
        benchmark = self.run.benchmark
        contexts = []
        for task in tasks:
            names = sorted(benchmark.needed(task))
            context = Context(
                task_id=task.id,
                method="Oracle",
                text=benchmark.oracle(task),
                source="; ".join(names),
                defines_task=False,
            )
            contexts.append(context)
        return contexts


def has_ended(feedbacks: Sequence[Feedback], may_end_on_success: bool = True) -> bool:
    """Tell whether the termination condition is satisfied (Section 2.3; line 21 of Algorithm 1).

    Args:
        feedbacks: F^0 to F^i of one task.
        may_end_on_success: Whether a draft without an error ends the task.

    Returns:
        Whether the last draft ran without an error and may end the task, or the last three feedbacks are
        equal.
    """
    last = feedbacks[-EQUAL_FEEDBACKS:]
    are_equal = len(last) == EQUAL_FEEDBACKS and len(set(last)) == 1
    return (last[-1].ok and may_end_on_success) or are_equal
