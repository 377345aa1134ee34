"""Algorithm 1 of the EVOR paper. One iteration of its loop is `EvorRound.retrieve`.

An iteration i is a method of its own, METHOD@i, which needs METHOD@(i-1). The evaluation pipeline
is the `for` of line 3: it retrieves the contexts of a round here, generates the programs p^i
(line 10) and stores them, and goes on to the next round. So a round starts where the algorithm
executes the drafts of the round before.

    line      paper                        here
    1         n, M, M_q, M_t               task.prompt; the models of `EvorRun`
    1         R, K, E                      `TextIndex`, `KnowledgeBase`, `EvorRun.execute`
    1, 3      m, i                         `EvorMethod.rounds`, `EvorRound.number`
    4-8       q_i <- n or M_q(...)         `EvorRound._queries`
    9         K_r <- R(q_i, K)             `KnowledgeBase.retrieve`
    10, 11    p <- p^i <- M(n, K_r)        the pipeline, with `EvorBenchmark.prompt`
    12        F^i = E(p^i, I)              `EvorRun.drafts`
    13-17     K <- K + p^i or (p^i, F^i)   `EvorRound._knowledge_base`
    18-20     I <- M_t(n, p^0)             `EvorRun.input_answers`
    21-23     terminate                    `has_ended`
    25        return p                     the stored solution of the last round

The algorithm leaves some points open. They are settled as follows.

- The test inputs I are written after the first draft and before it is executed. As printed, the
  first draft would run on none.
- Rounds are synchronous: all tasks finish a round before the knowledge base grows, so that the
  order of tasks decides nothing.
- A task that has ended keeps its context in later rounds, and so its answer.
- A draft that runs adds its lines with calls to K. One that fails adds its error with the line.
- A context after the first round ends with the task's own error, and with what to do if a name does
  not exist. (Appendix F puts errors into the prompt; line 10 does not.) This holds for every method
  whose sources include feedback, also where only the query or only the knowledge evolves.
- M_q gets the task, the draft and its feedback, but not the inputs I, which line 7 names.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pkg_lib.core.types import Context, Generation, Task
from pkg_lib.papers.evor.code_snippets import snippets_of
from pkg_lib.papers.evor.evor_methods import EvorMethod
from pkg_lib.papers.evor.evor_run import Drafts, EvorRun
from pkg_lib.papers.evor.execution_feedback import Draft, Feedback
from pkg_lib.papers.evor.knowledge_base import ContextRequest, KnowledgeBase, RetrievedKnowledge
from pkg_lib.papers.evor.query_evolution import QUERY_RULES, missing_attribute
from pkg_lib.papers.evor.templates import PROMPTS

EQUAL_FEEDBACKS = 3  # in consecutive rounds, which end a task (Section 2.3)
ANSWER_TOKENS = 100  # of a query, a reflection or a list of subgoals
COUNTED_METHOD = "EVOR"  # Table 6 is about its inputs; other methods' first drafts differ


@dataclass
class Iteration:
    """The state of Algorithm 1 at the start of iteration i.

    Attributes:
        history: p^j and F^j of every earlier round j < i.
        active: The tasks that have not ended.
        answers: What models other than M(n, K_r) were prompted for, to count their tokens.
    """

    history: list[Drafts]
    active: list[Task] = field(default_factory=list)
    answers: list[dict[str, Generation]] = field(default_factory=list)

    @property
    def last(self) -> Drafts:
        """p^(i-1) and F^(i-1) by task; empty in the first round."""
        return self.history[-1] if self.history else {}


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
        """Run iteration i of Algorithm 1 up to the context of each task.

        Args:
            tasks: The problems n.

        Returns:
            One context K_r per task, in order. A task that has ended keeps the context of its last
            round, whose answer is known.
        """
        iteration = Iteration(history=[])
        if self.number > 0:
            # Lines 18-20 of round 0: I <- M_t(n, p^0).
            inputs = self._test_inputs(iteration)
            # Line 12 of all earlier rounds: F^j = E(p^j, I).
            for round_name in self.method.round_names[: self.number]:
                iteration.history.append(self.run.drafts(round_name, inputs))
        # Lines 21-23: a task ends if its termination condition is satisfied.
        iteration.active = [task for task in tasks if _is_active(task, iteration.history)]
        # Lines 4-8: q_i <- n in the first round, else q_i <- M_q(n, p^(i-1), I, F^(i-1)).
        queries = self._queries(iteration)
        # Lines 13-17 of all earlier rounds: K <- K + {p^j} or K + {(p^j, F^j)}.
        knowledge_base = self._knowledge_base(iteration)
        # Line 9: K_r <- R(q_i, K).
        introductions = self._introductions(iteration)
        endings = self._endings(iteration, knowledge_base)
        requests = list(map(ContextRequest, queries, introductions, endings))
        retrieved = knowledge_base.retrieve(
            requests,
            self.method,
            self.run.benchmark.budgets,
            self.run.generator.measure,
        )
        # Lines 10 and 11, p <- p^i <- M(n, K_r): the pipeline generates from these contexts.
        return self._contexts(tasks, iteration, requests, retrieved)

    # Lines 18-20

    def _test_inputs(self, iteration: Iteration) -> dict[str, tuple[str, ...]]:
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
        """q_i of each active task; after the first round also n, which finds other documents."""
        way = self.method.query if iteration.last else "question"
        if way in QUERY_RULES:
            rule = QUERY_RULES[way]
            texts = []
            for task in iteration.active:
                no_draft = Draft(task, "", Feedback(True))
                draft = iteration.last.get(task.id, no_draft)
                texts.append(rule(draft))
        else:  # q_i <- M_q(n, p^(i-1), I, F^(i-1))
            template = PROMPTS["queries"][way]
            answers = self._answers("query", template, iteration)
            texts = [answers[task.id].raw for task in iteration.active]
        if way == "question":
            return [(text,) for text in texts]
        questions = [task.prompt for task in iteration.active]
        return list(zip(texts, questions, strict=True))

    def _answers(self, what: str, template: str, iteration: Iteration) -> dict[str, Generation]:
        """The answers of M_q about each active task."""
        prompts = {}
        for task in iteration.active:
            fields = self._template_fields(task, iteration)
            prompts[task.id] = template.format(**fields).strip()
        answers = self.run.ask(
            file=f"{self.name}.{what}",
            prompts=prompts,
            model=self.method.query_model,
            max_tokens=ANSWER_TOKENS,
        )
        iteration.answers.append(answers)
        return answers

    def _template_fields(self, task: Task, iteration: Iteration) -> dict[str, str]:
        """What the templates of prompts.toml may name: n, p^(i-1), F^(i-1)."""
        fields = {
            "task": task.prompt,
            "program": "",
            "feedback": "",
            "subject": self.run.benchmark.subject,
        }
        draft = iteration.last.get(task.id)
        if draft:
            fields["program"] = self.run.benchmark.fenced(draft.program)
            fields["feedback"] = draft.feedback.text
        return fields

    # Lines 13-17

    def _knowledge_base(self, iteration: Iteration) -> KnowledgeBase:
        """K with what the earlier rounds added, if it grows (Section 2.2.2)."""
        history = iteration.history if self.method.grows else []
        drafts = [draft for drafts in history for draft in drafts.values()]
        # Line 14: K <- K + {p^j} for each draft that ran.
        programs = [(example, "") for example in self.run.verified_examples]
        # Line 16: K <- K + {(p^j, F^j)} for each draft that failed.
        failures = []
        for draft in drafts:
            if draft.feedback.ok:
                programs.append((draft.program, draft.task.prompt))
            else:
                failures.append(draft.feedback.text)
        benchmark = self.run.benchmark
        collected = {
            "snippets": snippets_of(programs, self.method.whole_programs),
            "feedback": list(dict.fromkeys(failures)),
            "web": benchmark.pages() if "web" in self.method.sources else [],
        }
        return KnowledgeBase(benchmark.documents(), collected, benchmark.tokenizer)

    # The parts of a context around what is retrieved

    def _introductions(self, iteration: Iteration) -> list[str]:
        """What the model answered before it writes: a reflection (Reflexion) or subgoals (ExeDec)."""
        thought = PROMPTS["thoughts"].get(self.method.thinks)
        if not thought or ("{feedback}" in thought["ask"] and not iteration.last):
            return [""] * len(iteration.active)
        answers = self._answers(self.method.thinks, thought["ask"], iteration)
        texts = []
        for task in iteration.active:
            fields = self._template_fields(task, iteration)
            fields["answer"] = answers[task.id].raw.strip()
            texts.append(thought["shown"].format(**fields).strip())
        return texts

    def _endings(self, iteration: Iteration, knowledge_base: KnowledgeBase) -> list[str]:
        """The task's own error (Appendix F), and what to do if a name does not exist."""
        sources = self.method.sources
        if "feedback" not in sources or not iteration.last:
            return [""] * len(iteration.active)
        names = [""] * len(iteration.active)
        if "documents" in sources:
            errors = [iteration.last[task.id].feedback.error for task in iteration.active]
            names = [missing_attribute(error) for error in errors]
        nearest = knowledge_base.nearest_documents(names, self.method)
        parts = PROMPTS["failed"]
        texts = []
        for task, name, documents in zip(iteration.active, names, nearest, strict=True):
            template = parts["draft"]
            if name and documents:
                template += parts["nearest"]
            elif name:
                template += parts["absent"]
            fields = self._template_fields(task, iteration)
            fields["name"] = name
            fields["nearest"] = documents
            texts.append(template.format(**fields).strip())
        return texts

    # Lines 9 and 10

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
                spent[task_id] += len(answer.tokens) + answer.prompt_tokens
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
            # The context of an ended task keeps the name of its round, and so that round's answer.
            # What it costs now are the inputs that its first draft ran on.
            last_round = self.method.round_name(self.number - 1)
            for context in self.run.results.contexts(last_round):
                cost = spent.get(context.task_id)
                kept = replace(context, spent=cost)
                contexts.setdefault(context.task_id, kept)
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


def has_ended(feedbacks: Sequence[Feedback]) -> bool:
    """Tell whether the termination condition is satisfied (Section 2.3; line 21 of Algorithm 1).

    Args:
        feedbacks: F^0 to F^i of one task.

    Returns:
        Whether the last draft ran, or the last three feedbacks are equal.
    """
    last = feedbacks[-EQUAL_FEEDBACKS:]
    return last[-1].ok or (len(last) == EQUAL_FEEDBACKS and len(set(last)) == 1)


def _is_active(task: Task, history: Sequence[Drafts]) -> bool:
    """Whether a task takes part in the next round.

    A task whose last draft had a fault of the sandbox keeps its context until that is executed.
    """
    if not history:
        return True
    if task.id not in history[-1]:
        return False
    feedbacks = [drafts[task.id].feedback for drafts in history if task.id in drafts]
    return not has_ended(feedbacks)
