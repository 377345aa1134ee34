"""The paper's loop, walked through with a scripted model: values on the right-hand side are worked out by hand.

The library is `math` with three documents. The tokenizer counts words, and the retriever compares the words of
two texts (a-z only), so that each ranking and each budget can be checked with a pencil.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from pkg_lib import cli
from pkg_lib.core.registry import load_plugins
from pkg_lib.core.types import ProgramTests, Request, Task, UnavailableError, UserError
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Decoding, Generator
from pkg_lib.papers.evor import evor_loop, text_index
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS, PUBLISHED_ROUNDS
from pkg_lib.papers.evor.knowledge_base import KnowledgeBase
from pkg_lib.papers.evor.loop_options import AS_PUBLISHED, LoopOptions
from pkg_lib.retrieval.methods import METHODS
from tests.fakes import FakeBackend, WordEmbedder

MODEL = "qwen2.5-coder-0.5b-instruct"
HALF = 'def half(n):\n    """The whole root of n."""\n'
ADD = 'def add(n):\n    """One more than n."""\n'
ISQRT = "math.isqrt(k)\nInteger square root."
GCD = "math.gcd(a, b)\nGreatest common divisor."
EXP = "math.exp(n)\ne to the power of n."


class Tiny(EvorBenchmark):
    """Two tasks. A prompt without a context has 28 words for `half`, and 27 for `add`."""

    name, title, prompts, seconds = "tiny", "Tiny", "tiny", 5.0
    subject = "the library math"
    controls = {}  # noqa: RUF012 (its tasks have no reference solutions)
    budgets = {"context": 1, "snippets": 10, "feedback": 10, "answer": 4}  # noqa: RUF012

    def tasks(self) -> list[Task]:
        return [
            Task("tiny/half", "tiny", HALF, "half", ProgramTests("assert candidate(81) == 9")),
            Task("tiny/add", "tiny", ADD, "add", ProgramTests("assert candidate(81) == 82")),
        ]

    def documents(self) -> Mapping[str, str]:
        return {"math.isqrt": ISQRT, "math.gcd": GCD, "math.exp": EXP}

    def needed(self, task: Task) -> frozenset[str]:
        return frozenset()

    def program(self, task: Task, solution: str) -> str:
        return solution

    def solution(self, task: Task, raw: str) -> str:
        return raw.replace("```python\n", "").replace("\n```", "")

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (f"candidate = {task.entry_point}\n{task.hidden_tests.text}",)


def code(text: str) -> str:
    """A program as a model writes it, and as prompts show it."""
    return f"```python\n{text}\n```"


@dataclass
class Script:
    """A model that takes each answer from a list: beginning of the kind of prompt -> answers in order."""

    answers: dict[tuple[str, str], list[str]]
    asked: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> str:
        self.asked.append(request)
        of_request = [
            answers
            for (task_id, words), answers in self.answers.items()
            if task_id == request.task_id and words in request.text
        ]
        assert len(of_request) == 1, f"{len(of_request)} scripts for: {request.text}"
        return of_request[0].pop(0)

    def prompts(self, task_id: str, words: str) -> list[str]:
        """The prompts of one kind about a task, in order."""
        return [r.text for r in self.asked if r.task_id == task_id and words in r.text]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Makes an evaluator of the tiny benchmark with a scripted model."""
    load_plugins()
    monkeypatch.setitem(BENCHMARKS, "tiny", Tiny())
    monkeypatch.setattr(text_index, "Embedder", WordEmbedder)
    monkeypatch.setattr(Generator, "measure", lambda self, text: len(text.split()))
    monkeypatch.setattr(Generator, "context_window", None)

    def make(script):
        results = Results(MODEL, "tiny", results=tmp_path / "results")
        return Evaluator(results, backend=FakeBackend(script))

    return make


WRITE, SCRIPT, INPUTS, QUERY = "You write", "short script", "Write five calls", "Write a query"
LINE, TWO_LINES = "\n", "\n\n"
REFLECT, SUBGOAL, SUBPROGRAM = "Reflect on", "the next part of", "Write the lines"
TASK = "Solve this task. Answer with the complete program, in one code block.\n```python\n"

# The scripts of sample usage. The first fails, the other two run.
ISQRT_SCRIPT = "import math\nmath.isqrt('16')"
GCD_SCRIPT = "import math\nmath.gcd(4, 6)"
EXP_SCRIPT = "import math\nmath.exp(1)"
ISQRT_ERROR = (
    "`math.isqrt('16')`: TypeError: 'str' object cannot be interpreted as an integer"  # 10 words
)
# The drafts of `half`: the first two fail. The draft of `add` runs.
DRAFT_0 = "import math\n\ndef half(n):\n    # the inverse of squares\n    return math.whole_root(n)"
ERROR_0 = (  # 9 words
    "`return math.whole_root(n)`: AttributeError: module 'math' has no attribute 'whole_root'"
)
DRAFT_1 = "import math\n\ndef half(n):\n    return math.isqrt(str(n))"
ERROR_1 = (  # 11 words
    "`return math.isqrt(str(n))`: TypeError: 'str' object cannot be interpreted as an integer"
)
DRAFT_2 = "import math\n\ndef half(n):\n    return math.isqrt(n)"
ADD_0 = 'def add(n):\n    """Return the following integer."""\n    return n + 1'  # 10 words


def loop_script() -> Script:
    """What the model answers in three rounds of EVOR."""
    return Script(
        {
            ("math.isqrt", SCRIPT): [code(ISQRT_SCRIPT)],
            ("math.gcd", SCRIPT): [code(GCD_SCRIPT)],
            ("math.exp", SCRIPT): [code(EXP_SCRIPT)],
            ("tiny/half", WRITE): [code(DRAFT_0), code(DRAFT_1), code(DRAFT_2)],
            ("tiny/add", WRITE): [code(ADD_0)],
            ("tiny/half", INPUTS): [code("half(16)\nhalf(9)")],
            ("tiny/add", INPUTS): [code("add(1)")],
            ("tiny/half", QUERY): ["the greatest integer root", "inverse of squares"],
        }
    )


def test_algorithm_1_in_three_rounds(tiny, monkeypatch):
    """Lines 1 to 25: queries, knowledge and prompts of EVOR, as published@0 to @2."""
    knowledge: list[KnowledgeBase] = []

    def recorded(*arguments, **options):
        knowledge.append(KnowledgeBase(*arguments, **options))
        return knowledge[-1]

    monkeypatch.setattr(evor_loop, "KnowledgeBase", recorded)
    # The model's context is shorter than 4,096. The prompt of `half` has 28 words without a context, and the
    # answer 4, so 56 are left for the context.
    monkeypatch.setattr(Generator, "context_window", 88)
    script = loop_script()
    evaluator = tiny(script)
    rounds = [f"EVOR, as published@{number}" for number in range(3)]
    evaluator.prepare(rounds)

    # Lines 4-8. In round 0 the question is the query; then M_q writes it from n, p, I and F.
    contexts = [evaluator.run.contexts_by_task(name)["tiny/half"] for name in rounds]
    assert [context.query for context in contexts] == [
        HALF,
        "the greatest integer root",
        "inverse of squares",
    ]
    assert script.prompts("tiny/half", QUERY)[0] == (
        f"{HALF}\n\nA draft of the program:\n{code(DRAFT_0)}\n\n"
        "The inputs that it was run on:\nhalf(16)\nhalf(9)\n\n"
        f"What the execution reported: {ERROR_0}\n\n"
        "Write a query that searches the documentation of the library math for the knowledge that is needed "
        "now to write a right\nprogram. Answer with the query alone, in one or two sentences."
    )

    # Appendix D: K starts with the scripts; those that fail are pairs (code, error).
    assert [base.collected["snippets"] for base in knowledge] == [
        [GCD_SCRIPT, EXP_SCRIPT],
        [GCD_SCRIPT, EXP_SCRIPT, ADD_0],  # lines 13 and 14: K <- K + {p}
        [GCD_SCRIPT, EXP_SCRIPT, ADD_0],
    ]
    first_pair = f"{ISQRT_SCRIPT}\n{ISQRT_ERROR}"
    assert [base.searched["feedback"] for base in knowledge] == [
        [first_pair],
        [first_pair, f"{DRAFT_0}\n{ERROR_0}"],  # lines 15 and 16: K <- K + {(p, F)}
        [first_pair, f"{DRAFT_0}\n{ERROR_0}", f"{DRAFT_1}\n{ERROR_1}"],
    ]

    # Lines 9 and 10. Of the 56 words, failures, snippets and the task's own error come first, and documents
    # fill the rest (Appendix F). Failures and snippets have at most 10 words each, beside their titles.
    first, second, third = script.prompts("tiny/half", WRITE)
    start = "You write python with the library math.\n\nWhat failed in earlier programs:\n"
    snippets = "Programs that run without error:\n"
    own_error = "A draft of the program failed:\n"
    end = f"{TASK}{HALF.strip()}\n```"
    # Round 0: 15 and 14 words, which leaves 27: all documents, 16 words. n shares with exp "n" twice, "the" and
    # "of" (cosine 6 of the square root of 12 x 11), and with isqrt "root" (1 of the root of 12 x 6).
    assert first == (
        f"{start}{ISQRT_ERROR}\n\n{snippets}{code(GCD_SCRIPT + TWO_LINES + EXP_SCRIPT)}\n\n"
        f"Documentation:\n{EXP}\n\n{ISQRT}\n\n{GCD}\n\n{end}"
    )
    # Round 1: 15, 17 and 15 words, which leaves 9: isqrt (4 words; "integer" and "root") and gcd (5; "greatest").
    # With the question beside the query, exp would be second. The best document is last, next to the error.
    # Of the snippets, only the program of `add` shares words with the query: "the" and "integer". The task's
    # own error is the first failure found; it stands at the end, so the second one is shown.
    assert second == (
        f"{start}{ISQRT_ERROR}\n\n{snippets}{code(ADD_0)}\n\n"
        f"Documentation:\n{GCD}\n\n{ISQRT}\n\n{own_error}{ERROR_0}\n\n{end}"
    )
    # Round 2: the query shares words with the whole program of round 0 alone, so its error is found first (9
    # words). No snippet shares a word, so they keep their order; of `add` one line fits. 14, 16 and 17 words
    # leave 9: exp ("of", 7 words) and the first line of isqrt.
    of_add = "def add(n):"
    assert third == (
        f"{start}{ERROR_0}\n\n{snippets}{code(GCD_SCRIPT + TWO_LINES + EXP_SCRIPT + TWO_LINES + of_add)}\n\n"
        f"Documentation:\nmath.isqrt(k)\n\n{EXP}\n\n{own_error}{ERROR_1}\n\n{end}"
    )

    # Every answer is decoded greedily, and a task that has ended is not prompted again.
    assert {request.sample for request in script.asked} == {0}
    assert len(script.prompts("tiny/add", WRITE)) == 1
    # Line 25: the returned programs are those of the last round.
    assert evaluator.run.solutions(rounds[-1]) == {"tiny/half": DRAFT_2, "tiny/add": ADD_0}
    assert evaluator.run.verdicts(rounds).sum().to_dict() == dict(
        zip(rounds, [1, 1, 2], strict=True)
    )


def test_reflexion_keeps_its_reflections(tiny):
    """Section 3.1: the actor is conditioned on the instructions and the memory; nothing is retrieved."""
    script = Script(
        {
            ("tiny/half", WRITE): [code(DRAFT_0), code(DRAFT_1), code(DRAFT_2)],
            ("tiny/add", WRITE): [code(ADD_0)],
            ("tiny/half", INPUTS): [code("half(16)")],
            ("tiny/add", INPUTS): [code("add(1)")],
            ("tiny/half", REFLECT): ["There is no whole_root. Use isqrt.", "Do not make n a text."],
        }
    )
    evaluator = tiny(script)
    rounds = [f"Reflexion, as published@{number}" for number in range(3)]
    evaluator.prepare(rounds)

    # A reflection is on the pair of a trajectory and its reward, which is 0 upon an execution error.
    reflections = script.prompts("tiny/half", REFLECT)
    about = "Reflect on the attempt: say in one or two short sentences what went wrong, and what the next "
    about += "attempt must do\ndifferently."
    assert reflections == [
        f"{HALF}\n\nAn attempt:\n{code(draft)}\n\nWhen it ran: {error}\nIts reward: 0 of 1\n\n{about}"
        for draft, error in ((DRAFT_0, ERROR_0), (DRAFT_1, ERROR_1))
    ]
    # The memory grows by one reflection a round, and both are in the last prompt.
    start = "You write python with the library math."
    memory = "Reflections on your earlier attempts at this task, oldest first:\n"
    end = f"{TASK}{HALF.strip()}\n```"
    assert script.prompts("tiny/half", WRITE) == [
        f"{start} {end}",
        f"{start}\n\n{memory}1. There is no whole_root. Use isqrt.\n\n{end}",
        f"{start}\n\n{memory}1. There is no whole_root. Use isqrt.\n2. Do not make n a text.\n\n{end}",
    ]
    assert {request.sample for request in script.asked} == {0}
    assert evaluator.run.solutions(rounds[-1])["tiny/half"] == DRAFT_2
    # A reflection costs tokens once, in the round that it was written for: 9 read, 2 written, as the inputs.
    spent = [evaluator.run.contexts_by_task(name)["tiny/half"].spent for name in rounds]
    assert spent == [0, 2 * (9 + 2), 9 + 2]


def test_a_memory_longer_than_half_of_the_prompt_loses_its_oldest_reflections(tiny, monkeypatch):
    # 28 words of the prompt, 4 of the answer, 40 for the context, of which the memory may take 20: its title
    # has 9 words, so the second reflection fits (8 words with its number) and the first (8) does not.
    monkeypatch.setattr(Generator, "context_window", 72)
    script = Script(
        {
            ("tiny/half", WRITE): [code(DRAFT_0), code(DRAFT_1), code(DRAFT_2)],
            ("tiny/add", WRITE): [code(ADD_0)],
            ("tiny/half", INPUTS): [code("half(16)")],
            ("tiny/add", INPUTS): [code("add(1)")],
            ("tiny/half", REFLECT): ["one one one one one one one", "two two two two two two two"],
        }
    )
    tiny(script).prepare([f"Reflexion, as published@{number}" for number in range(3)])
    _, second, third = script.prompts("tiny/half", WRITE)
    assert "1. one one one one one one one" in second
    assert "1. two two two two two two two" in third and "one one" not in third


def test_exedec_executes_a_subprogram_before_the_next_subgoal(tiny):
    """Section 3.1: subgoals, subprograms and their execution take turns; the subprograms are combined."""
    combined = "import math\n\ndef half(n):\n    root = math.isqrt(n)\n    return root"
    script = Script(
        {
            ("tiny/half", SUBGOAL): ["n is an example.", "root is the answer\nfor n.", "DONE"],
            ("tiny/half", SUBPROGRAM): [code("n = 17"), code("import math\nroot = math.isqrt(n)")],
            ("tiny/half", WRITE): [code(combined)],
            # The second part of `add` fails, so the third one runs without it.
            ("tiny/add", SUBGOAL): [
                "n is an example.",
                "more is n + 1.",
                "more is n + 1, by adding.",
            ],
            ("tiny/add", SUBPROGRAM): [
                code("n = 1"),
                code("more = n.plus(1)"),
                code("more = n + 1"),
            ],
            ("tiny/add", WRITE): [code(ADD_0)],
        }
    )
    evaluator = tiny(script)
    evaluator.prepare(["ExeDec, as published"])

    ask = "What is the next part of a program for this task? Describe in one line the state that it has to "
    ask += "reach. If the parts\nabove do everything, answer with the word DONE."
    part_1 = f"Part 1: n is an example.\n{code('n = 17')}\nState after it ran: n = 17"
    part_2 = (
        "Part 2: root is the answer for n.\n"
        f"{code('import math' + LINE + 'root = math.isqrt(n)')}\nState after it ran: root = 4; n = 17"
    )
    # Each subgoal is predicted from the state that the parts before it reached.
    assert script.prompts("tiny/half", SUBGOAL) == [
        f"{HALF}\n\nNo part of the program is written yet.\n\n{ask}",
        f"{HALF}\n\n{part_1}\n\n{ask}",
        f"{HALF}\n\n{part_1}\n\n{part_2}\n\n{ask}",
    ]
    write = "Write the lines for this part alone, in one code block. They run after the parts above, at the top "
    write += "level of a script.\nWhere the task has arguments, the first part assigns examples to variables of "
    write += "their names."
    assert script.prompts("tiny/half", SUBPROGRAM)[1] == (
        f"{HALF}\n\n{part_1}\n\nThe next part has to reach this state: root is the answer for n.\n\n{write}"
    )
    # M combines the subprograms.
    (prompt,) = script.prompts("tiny/half", WRITE)
    assert prompt == (
        "You write python with the library math.\n\n"
        f"The program in parts, with the state after each part ran:\n\n{part_1}\n\n{part_2}\n\n"
        f"Combine the parts into the complete program.\n\n{TASK}{HALF.strip()}\n```"
    )
    assert evaluator.run.solutions("ExeDec, as published")["tiny/half"] == combined
    # A part that fails is shown with its error, and is not executed again.
    (of_add,) = script.prompts("tiny/add", WRITE)
    error = "`more = n.plus(1)`: AttributeError: 'int' object has no attribute 'plus'"
    assert f"State after it ran: {error}\n\nPart 3:" in of_add
    assert f"{code('more = n + 1')}\nState after it ran: more = 2; n = 1\n\nCombine" in of_add
    # Five answers about each task: three subgoals and two subprograms; for `add` three and three.
    spent = evaluator.run.contexts_by_task("ExeDec, as published")
    assert [context.spent for context in spent.values()] == [5 * 11, 6 * 11]


def test_exedec_with_evor_writes_its_parts_with_the_retrieved_knowledge(tiny):
    answers = loop_script().answers
    answers["tiny/half", SUBGOAL] = ["root is the answer.", "The parts do everything: **DONE**"]
    answers["tiny/half", SUBPROGRAM] = [code("root = 4")]
    answers["tiny/add", SUBGOAL] = ["DONE"]
    script = Script(answers)
    tiny(script).prepare(["EVOR + ExeDec, as published@0"])
    for prompt in (
        script.prompts("tiny/half", SUBGOAL)[0],
        script.prompts("tiny/half", SUBPROGRAM)[0],
    ):
        assert EXP_SCRIPT in prompt and ISQRT_ERROR in prompt and GCD in prompt
    (prompt,) = script.prompts("tiny/half", WRITE)
    assert "State after it ran: root = 4" in prompt and ISQRT in prompt
    assert "Combine" not in script.prompts("tiny/add", WRITE)[0]


def test_a_benchmark_in_another_language_has_no_subprograms(tiny, monkeypatch):
    monkeypatch.setattr(Tiny, "language", "newlisp")
    with pytest.raises(
        UnavailableError, match="programs, and those of Tiny are in newlisp; choose"
    ):
        tiny(Script({})).prepare(["ExeDec, as published"])


def test_a_benchmark_without_documentation_has_no_scripts(tiny, monkeypatch):
    monkeypatch.setattr(Tiny, "documents", lambda self: {})
    with pytest.raises(UnavailableError, match="Tiny has no documentation"):
        tiny(Script({})).prepare(["EVOR, as published@0"])


def test_a_round_needs_the_rounds_before_it(tiny):
    with pytest.raises(UnavailableError, match="complete EVOR, as published@0 first"):
        tiny(Script({})).prepare(["EVOR, as published@1"])


def test_an_unknown_kind_of_growth_is_refused():
    with pytest.raises(ValueError, match="none of lines, programs"):
        LoopOptions(added="line")


def test_a_round_needs_the_programs_of_its_own_tasks(tiny):
    """As many programs as tasks are no sign that they are those of these tasks."""
    evaluator = tiny(loop_script())
    evaluator.prepare(["EVOR, as published@0"])
    run = evaluator.run
    (half, add) = run.tasks
    stranger = replace(add, id="tiny/other")
    made = run.retriever_factory("EVOR, as published@1")(run.knowledge)
    with pytest.raises(UnavailableError, match="complete EVOR, as published@0 first"):
        made.retrieve([half, stranger])


def test_the_published_loop_ranks_more_texts_than_the_stored_runs():
    texts = [f"word {number}" for number in range(50)]
    assert len(text_index.TextIndex(texts).rank(["word"], "BM25")[0]) == 40
    assert (
        len(text_index.TextIndex(texts).rank(["word"], "BM25", most=AS_PUBLISHED.ranked)[0]) == 50
    )


def test_a_draft_that_ran_on_no_input_does_not_end_its_task(tiny):
    """A draft that is defined and never called says nothing of the program (line 21)."""
    script = loop_script()
    script.answers["tiny/add", INPUTS] = ["There are no inputs."]
    script.answers["tiny/add", QUERY] = ["one more"]
    script.answers["tiny/add", WRITE] = [code(ADD_0), code(ADD_0)]
    evaluator = tiny(script)
    evaluator.prepare(["EVOR, as published@0", "EVOR, as published@1"])
    assert len(script.prompts("tiny/add", WRITE)) == 2


@pytest.mark.parametrize(("of_model", "window"), [(None, 4096), (32768, 4096), (2048, 2048)])
def test_prompts_are_as_long_as_the_models_context_allows(tiny, monkeypatch, of_model, window):
    """Section 3.2 and Appendix F: 4,096 tokens, of which the answer has its part."""
    monkeypatch.setattr(Generator, "context_window", of_model)
    long_documents = {
        f"math.f{number}": f"math.f{number}()\n" + "word " * 198 for number in range(80)
    }
    monkeypatch.setattr(Tiny, "documents", lambda self: long_documents)
    script = Script(
        {
            ("tiny/half", WRITE): [code(DRAFT_2)],
            ("tiny/add", WRITE): [code(ADD_0)],
        }
    )
    evaluator = tiny(script)
    evaluator.prepare(["DocPrompting, as published"])
    (prompt,) = script.prompts("tiny/half", WRITE)
    # A document has 199 words. The first line of the next one may be shown; "Documentation:" is not counted.
    assert window - 4 - 199 < len(prompt.split()) <= window - 4 + 1
    provenance = evaluator.run.files("DocPrompting, as published").provenance.read_text()
    assert f'"window": {window}' in provenance and '"starts_with_scripts": true' in provenance


@pytest.mark.parametrize(
    ("configuration", "window"), [('{"max_position_embeddings": 77}', 77), ("{}", None)]
)
def test_the_models_context_is_read_from_its_configuration(
    configuration, window, tmp_path, monkeypatch
):
    (tmp_path / "config.json").write_text(configuration)
    monkeypatch.setattr(Generator, "weights", lambda self: tmp_path)
    generator = Generator(MODEL, Decoding({}), GenerationCache(tmp_path / "cache"), tmp_path)
    assert generator.context_window == window


def test_a_document_longer_than_the_window_is_cut_for_its_script(tiny, monkeypatch):
    monkeypatch.setattr(Tiny, "documents", lambda self: {"math.f": "math.f()\n" + "word\n" * 9000})
    script = Script(
        {
            ("math.f", SCRIPT): [code(EXP_SCRIPT)],
            ("tiny/half", WRITE): [code(DRAFT_2)],
            ("tiny/add", WRITE): [code(ADD_0)],
        }
    )
    tiny(script).prepare(["RK, as published"])
    (prompt,) = script.prompts("math.f", SCRIPT)
    assert 3700 < len(prompt.split()) <= 4096 - 300


def test_scripts_are_written_and_executed_once(tiny, monkeypatch):
    script = loop_script()
    tiny(script).prepare(["EVOR, as published@0"])
    again = Script({("tiny/half", WRITE): [code(DRAFT_0)], ("tiny/add", WRITE): [code(ADD_0)]})
    monkeypatch.setattr(
        "pkg_lib.papers.evor.evor_run.run_jobs",
        lambda jobs, *a, **k: [] if not jobs else pytest.fail(),
    )
    tiny(again).prepare(["RK, as published"])  # its prompts are those of EVOR's first round
    assert again.asked == []


def test_todays_methods_keep_their_loop():
    """The stored runs' methods differ from the published ones in each option, by name."""
    for name in ("DocPrompting", "RK", "Reflexion", "ExeDec", "EVOR"):
        stored, published = EVOR_METHODS[name], EVOR_METHODS[f"{name}, as published"]
        assert not stored.loop.starts_with_scripts and stored.loop.question_retrieves_again
        assert stored.loop.window == 0 and published.loop.window == 4096
        assert stored.sources == published.sources and stored.grows == published.grows
    assert [METHODS[f"EVOR@{n}"].sampling.sample for n in range(5)] == [0, 0, 2, 3, 4]
    published = [METHODS[f"EVOR, as published@{n}"] for n in range(PUBLISHED_ROUNDS + 1)]
    assert {method.sampling.sample for method in published} == {0}
    assert published[7].needs == ("EVOR, as published@6",)


def test_a_dry_run_counts_what_the_loop_prompts_for(tiny, monkeypatch, capsys, tmp_path):
    """`--method "EVOR, as published"` means all of its rounds, 31 x 2 programs."""
    evaluator = tiny(Script({}))
    monkeypatch.setenv("PKG_RESULTS", str(evaluator.run.results))
    words = ["run", "--benchmark", "tiny", "--model", MODEL, "--method", "EVOR, as published"]
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *words, "--dry-run", "--tokens-per-second", "10"])
    assert cli.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines if "as published@" in line] == [["0", "2"]] * 31
    assert "  beside programs: at most 3 scripts, 2 requests for inputs, 60 queries" in lines
    # 62 programs of 4 tokens, 3 scripts of 300, 2 requests for inputs of 200 and 60 queries of 100.
    new = 62 * 4 + 3 * 300 + 2 * 200 + 60 * 100
    # A program's prompt has at most 4,092 tokens. The two tasks have 47 + 41 characters, the documents 35, 41 and
    # 33, which counts as a third; a draft has at most 4, inputs have 200, and the words around them 200.
    statements = (len(HALF) + len(ADD)) / 3
    drafts = statements + 2 * (4 + 200)
    scripts = (len(ISQRT) + len(GCD) + len(EXP)) / 3 + 3 * 200
    read = 62 * 4092 + scripts + drafts + 30 * (drafts + 2 * 200)
    (cost,) = [line for line in lines if "to complete" in line]
    assert cost == (
        f"  to complete: 127 prompts; estimated {read:,.0f} prompt tokens, {new:,} new tokens, 13 min"
    )


@pytest.mark.parametrize(
    ("benchmark", "alias"), [("beatnum", "beatnum as bn"), ("networkx-m", "meshwork as mw")]
)
def test_the_loop_runs_on_the_benchmarks_of_the_study(benchmark, alias, tmp_path, monkeypatch):
    """A scripted model on the benchmarks' own tasks, libraries and executors."""
    load_plugins()
    spec = BENCHMARKS[benchmark]
    try:
        documents = spec.documents()
    except UserError as error:
        pytest.skip(str(error))
    few = dict(list(documents.items())[:3])
    monkeypatch.setattr(type(spec), "documents", lambda self: few)
    monkeypatch.setattr(text_index, "Embedder", WordEmbedder)
    monkeypatch.setattr(Generator, "measure", lambda self, text: len(text.split()))
    monkeypatch.setattr(Generator, "context_window", None)
    module = alias.split()[0]
    references = {task.id: task.solution.rstrip() for task in spec.tasks()[:2]}

    def answer(request):
        if "short script" in request.text:  # of three scripts one fails
            fails = request.task_id == list(few)[1]
            return code(f"import {alias}\nprint({module if fails else alias.split()[-1]})")
        if "Write the lines" in request.text:
            return code(f"import {alias}\nstep = 3")
        if "next part" in request.text:
            return "DONE" if "Part 1" in request.text else "step is 3."
        if "You write" not in request.text:
            return "the shape"
        is_draft = "A draft of the program failed" not in request.text
        return code("this is no program") if is_draft else code(references[request.task_id])

    results = Results(MODEL, benchmark, limit=2, results=tmp_path / "results")
    evaluator = Evaluator(results, backend=FakeBackend(answer))
    rounds = ["EVOR, as published@0", "EVOR, as published@1"]
    evaluator.prepare(rounds)
    assert results.verdicts(rounds).sum().to_dict() == {rounds[0]: 0, rounds[1]: 2}
    prompts = [request.text for request in results.generator.backend.asked]
    first = next(text for text in prompts if "You write" in text)
    assert f"import {alias}\nprint({alias.split()[-1]})" in first
    assert f"NameError: name '{module}' is not defined" in first
    assert next(iter(few)) in first
    evaluator.prepare(["ExeDec, as published"])
    prompts = [request.text for request in results.generator.backend.asked]
    assert any("step = 3\n\nCombine the parts" in text for text in prompts)
