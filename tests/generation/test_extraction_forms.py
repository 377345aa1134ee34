"""Test the expected solution in many forms of model answers (docs/extraction.md)."""

from __future__ import annotations

import gc
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pkg_lib.generation.answer_text import REASONING_TAGS, answer
from pkg_lib.generation.extraction import extract, settled

F = "def f(x):\n    return x\n"
G = "def g(x):\n    return 1\n"
WRONG = "def f(x):\n    return 0\n"
BODY = "    return x\n"
LONG_BODY = "    if x:\n        return 1\n\n    return 2\n"
FENCED = f"```python\n{F}```\n"
DRAFT = f"```python\n{WRONG}```\n"
IMPORT = "import math\n"
ROOT = "def f(x):\n    return math.sqrt(x)\n"
FLOOR = "def f(x):\n    return np.floor(x)\n"
DOC_FENCE = 'def f(x):\n    """Doc.\n\n    ```\n    f(1)\n    ```\n    """\n    return x\n'
DOC_LANGUAGE = 'def f(x):\n    """Doc.\n\n    ```python\n    f(1)\n    ```\n    """\n    return x\n'
DOC_EOS = "def f(x):\n    return x + '</s>'\n"
DOC_THINK = "def f(x):\n    return x.replace('</think>', '')\n"
METHOD = "class A:\n    def f(self, x):\n        return x + 1\n"
OUTER = "def g(x):\n    def f(y):\n        return y + 1\n\n    return f(x)\n"
CONDITION = "if True:\n    def f(x):\n        return x\n"
TYPED_LAMBDA = "from typing import Callable\n\nf: Callable = lambda x: x\n"
LEFT_DOC = 'def f(x):\n    """Doc.\n\n```\nf(1)\n```\n    """\n    return x\n'
LEFT_DOC_2 = 'def f(x):\n  """Doc.\n\n  ```\n  f(1)\n  ```\n  """\n  return x\n'
LEFT_DOC_PY = 'def f(x):\n  """Doc.\n\n  ```python\n  f(1)\n  ```\n  """\n  return x\n'
TAGGED = 'def f(x):\n    return """<b>\n</b>\n"""\n'
STRING_BODY = '    s = """\na\n"""\n    return s\n'
COMMENTED_BODY = "    for i in x:\n        pass\n#    print(i)\n    return 1\n"
BRACKET_BODY = "    y = [\n1,\n]\n    return y\n"
TRY_IMPORT = "try:\n    import math\nexcept ImportError:\n    math = None\n"
ROOT_ALONE = "def f(x):\n    return sqrt(x)\n"
LONG_IMPORT = "from math import (\n    floor,\n    sqrt,\n)\n"
SHORT_IMPORT = "from math import floor, sqrt\n"
SQRT = "from math import sqrt\n"


def indented(text, prefix):
    return "".join(f"{prefix}{line}".rstrip() + "\n" for line in text.splitlines())


FORMS = {
    # Fences as CommonMark defines them
    "fence": (FENCED, F),
    "fence without a language": (f"```\n{F}```\n", F),
    "fence at the end of the text": (f"```python\n{F}```", F),
    "tildes": (f"~~~python\n{F}~~~\n", F),
    "tildes around backticks": (f"~~~\n{DOC_FENCE}~~~\n", DOC_FENCE),
    "longer fence": (f"````python\n{DOC_FENCE}````\n", DOC_FENCE),
    "closing fence longer": (f"```python\n{F}`````\n", F),
    "capitalised language": (f"```Python\n{F}```\n", F),
    "attributes after the language": (f'```python title="a.py"\n{F}```\n', F),
    "braces": (f"```{{python}}\n{F}```\n", F),
    "space before the language": (f"``` python\n{F}```\n", F),
    "unclosed": (f"```python\n{F}", F),
    "unclosed, then prose": (f"```python\n{F}\nThis returns x.\n", F),
    "prose around": (f"Sure! Here it is:\n\n{FENCED}\nI hope it helps.", F),
    "fence in a list item": (f"1. Solution:\n\n{indented(FENCED, '   ')}", F),
    "fence on a list item's line": (f"- ```python\n{indented(F, '  ')}  ```\n", F),
    "fence in a nested list": (f"- a\n  - b\n\n{indented(FENCED, '    ')}", F),
    "fence in item 10": (f"10. Solution\n\n{indented(FENCED, '    ')}", F),
    "list item whose code is not indented": (f"1. Solution:\n\n   ```python\n{F}   ```\n", F),
    "fence that ends with its list item": (
        f"- ```python\n{indented(WRONG, '  ')}\nNo:\n{FENCED}",
        F,
    ),
    "block quote": (indented(FENCED, "> "), F),
    "quote in a list": (f"- So:\n{indented(FENCED, '  > ')}", F),
    "fence indented by two, code not": (f"  ```python\n{F}  ```\n", F),
    "fence and code indented by two": (indented(FENCED, "  "), F),
    "everything indented by four": (f"Solution:\n\n{indented(FENCED, '    ')}", F),
    "fence in a docstring": (f"```python\n{DOC_FENCE}```\n", DOC_FENCE),
    "fence with language in a docstring": (f"```python\n{DOC_LANGUAGE}```\n", DOC_LANGUAGE),
    "Windows line ends": (FENCED.replace("\n", "\r\n"), F),
    "old Mac line ends": (FENCED.replace("\n", "\r"), F),
    "HTML tag before the fence": (f"<answer>\n{FENCED}</answer>\n", F),
    "details element": (f"<details>\n<summary>Code</summary>\n{FENCED}</details>\n", F),
    "blanks after the closing fence": (f"```python\n{F}```   \nDone.", F),
    "two blocks": (f"{FENCED}Or:\n{DRAFT}", F),
    "other function first": (f"```python\n{G}```\n{FENCED}", F),
    "shell block first": (f"```bash\npip install x\n```\n{FENCED}", F),
    "usage block after": (f"{FENCED}Usage:\n```python\nprint(f(1))\n```\n", F),
    "usage block before": (f"```python\nprint(f(1))\n```\n{FENCED}", F),
    "output block": (f"{FENCED}```text\n1\n```\n", F),
    "block that is not Python first": (f"```python\ndef f(x)\n    return x\n```\n{FENCED}", F),
    "block that breaks off first": (f"```python\ndef f(x):\n    return (\n```\n{FENCED}", F),
    "body in a fence": (f"```python\n{BODY}```\n", BODY),
    "NUL is kept": ("```python\ndef f(x):\n    return '\0'\n```\n", "def f(x):\n    return '\0'\n"),
    "form feed": (f"```python\n\x0c{F}```\n", f"\x0c{F}"),
    # Fences that CommonMark does not recognise, or recognises at another position
    "prose before the opening fence": (f"Here is the code: ```python\n{F}```\nDone.", F),
    "prose before a bare opening fence": (f"Here is the code: ```\n{F}```", F),
    "closing fence on the last line of code": (f"```python\n{F.rstrip()}```", F.rstrip()),
    "the same, prose after": (f"```python\n{F.rstrip()}```\nThis is it.\n", F.rstrip()),
    "the same, another block after": (
        f"```python\n{F.rstrip()}```\nUse:\n```python\nf(1)\n```\n",
        F.rstrip(),
    ),
    "prose after the closing fence": (f"```python\n{F}```This returns x.", F),
    "stray closing fence": (f"{F}```\n", F),
    "stray closing fence, then prose": (f"{F}```\n\nIt returns x.\n", F),
    "stray closing fence, then usage": (f"{F}```\n\nUsage:\n```python\nprint(f(1))\n```\n", F),
    "stray closing tildes": (f"{F}~~~\n", F),
    "body, closing fence, prose": (f"{BODY}```\n\nThis returns x.\n", BODY),
    "long body, closing fence": (f"{LONG_BODY}```", LONG_BODY),
    "fence opened in prose": (f"```python\nHere it is:\n\n{FENCED}", F),
    "fence never closed before the next": (
        f"```python\n{F}\nFor example:\n```python\nf(1)\n```\n",
        F,
    ),
    "fences inside a Markdown block": (f"````markdown\n# T\n{FENCED}````\n", F),
    "Markdown block of three marks": (f"```markdown\n# T\n{FENCED}```\n", F),
    "inline code before bare code": (f"Use `f` or ```f(x)``` so:\n{F}", F),
    # Tags
    "tags": (f"[PYTHON]\n{F}[/PYTHON]", F),
    "tags on the code's lines": (f"[PYTHON]{F}[/PYTHON]", F),
    "unclosed tag": (f"[PYTHON]\n{F}", F),
    "fence in tags": (f"text [PYTHON]\n{FENCED}[/PYTHON]", F),
    "two tagged blocks": (f"[PYTHON]\n{G}[/PYTHON]\n[PYTHON]\n{F}[/PYTHON]", F),
    "closing tag alone": (f"{F}[/PYTHON]\nIt returns x.", F),
    "tagged body": (f"[PYTHON]\n{BODY}[/PYTHON]", BODY),
    # Reasoning
    "draft in the reasoning": (f"<think>\n{DRAFT}No.\n</think>\n\n{FENCED}", F),
    "reasoning, bare code": (f"<think>\nint() is wrong\n</think>\n{F}", F),
    "opening tag in the prompt": (f"Maybe:\n{DRAFT}</think>\n{FENCED}", F),
    "two reasonings": (f"<think>a</think>\n{DRAFT}<think>b</think>\n{FENCED}", F),
    "reasoning never closed": (f"<think>\nMaybe:\n{DRAFT}", ""),
    "reasoning never closed, second": (f"<think>a</think>\n<think>\n{DRAFT}", ""),
    "empty reasoning": (f"<think>\n\n</think>\n\n{FENCED}", F),
    "other tags": (f"<reasoning>{DRAFT}</reasoning>\n{FENCED}", F),
    "Mistral's tags": (f"[THINK]{DRAFT}[/THINK]{FENCED}", F),
    "channels": (
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|channel|>final<|message|>{FENCED}",
        F,
    ),
    "tag in a string": (f"```python\n{DOC_THINK}```\n", DOC_THINK),
    "tag named in the reasoning": (f"<think>I end with `</think>`.\n{DRAFT}</think>\n{FENCED}", F),
    "nothing after the reasoning": ("<think>a</think>", ""),
    # End-of-text tokens and invisible characters
    "</s>": (f"```python\n{F}```</s>", F),
    "<|endoftext|>": (f"```python\n{F}```<|endoftext|>Next: {DRAFT}", F),
    "<|im_end|>": (f"```python\n{F}```<|im_end|>\n", F),
    "<|eot_id|>": (f"{F}<|eot_id|>", F),
    "<|EOT|>": (f"```python\n{F}<|EOT|>", F),
    "<end_of_turn>": (f"{BODY}<end_of_turn>\n", BODY),
    "DeepSeek's end": (f"{FENCED}<｜end▁of▁sentence｜>", F),
    "token on the line of code": ("def f(x):\n    return x</s>", "def f(x):\n    return x"),
    "what follows a token": (f"```python\n{G}```\n</s>\n{FENCED}", G),
    "token in a string": (f"```python\n{DOC_EOS}```\n", DOC_EOS),
    "byte order mark": (f"\ufeff{FENCED}", F),
    "byte order mark in the block": (f"```python\n\ufeff{F}```\n", F),
    "byte order mark, bare code": (f"\ufeff{F}", F),
    "zero width space": (f"\u200b{FENCED}", F),
    # Bare code
    "bare code": (F, F),
    "bare body": (BODY, BODY),
    "bare code between prose": (f"Here's the solution:\n\n{F}\nIt's simple (really).\n", F),
    "bare code, one word after": (f"{F}Done\n", F),
    "bare code, one word before": (f"Solution\n{F}", F),
    "bare code, a note before": (f"Note: this\n{F}", F),
    "bare code with imports": (f"So:\n{IMPORT}\n{ROOT}\nThat is it!\n", f"{IMPORT}\n{ROOT}"),
    "bare decorated": (f"So:\n@cache\n{F}That is all.\n", f"@cache\n{F}"),
    "bare code twice, the longer": (
        f"{WRONG}No, better:\ndef f(x):\n    y = x\n    return y\n",
        None,
    ),
    "indented bare code": (f"So it is:\n\n{indented(F, '    ')}\nThat is all.\n", F),
    "body, then prose": (f"{LONG_BODY}\nThis returns 1 or 2.\n", LONG_BODY),
    "prose, body, prose": (f"The body is:\n\n{BODY}\nThat is all.\n", BODY),
    "body with lines of blanks": (
        f"```python\n\n{BODY}  \n{BODY}    \n```",
        f"\n{BODY}  \n{BODY}    \n",
    ),
    "bare body with lines of blanks": (f"\n{BODY}  \n{BODY}", f"\n{BODY}  \n{BODY}"),
    "body indented by two": ("```python\n  if x:\n    return x\n```", None),
    "body without its indentation": ("```python\nreturn x\n```\n", BODY),
    "body whose first line lost it": ("if x:\n        return 1\n    return 2\n", None),
    "no code at all": ("I cannot do that.", "I cannot do that."),
    "nothing": ("", ""),
    "cut in the function": ("```python\ndef f(x):\n    return (", "def f(x):\n    return ("),
    "wrong inside the function": ("def f(x):\n    y = = 1\n    return x\n", None),
    "cut in the usage": (f"```python\n{F}\nprint(f(1), f(", F),
    "async": ("```python\nasync def f(x):\n    return x\n```", "async def f(x):\n    return x\n"),
    # Imports and signatures
    "imports in a block of their own": (
        f"```python\n{IMPORT}```\n```python\n{ROOT}```\n",
        IMPORT + ROOT,
    ),
    "imports under another name": (
        f"```python\nimport numpy as np\n```\n```python\n{FLOOR}```\n",
        f"import numpy as np\n{FLOOR}",
    ),
    "imported member": (
        "```python\nfrom math import sqrt, pi\n```\n```python\ndef f(x):\n    return sqrt(x)\n```\n",
        "from math import sqrt, pi\ndef f(x):\n    return sqrt(x)\n",
    ),
    "imports that are not needed": (f"```python\n{IMPORT}```\n{FENCED}", F),
    "imports for a body": (
        f"```python\n{IMPORT}```\n```python\n    return math.sqrt(x)\n```\n",
        "    import math\n    return math.sqrt(x)\n",
    ),
    "import over several lines": (
        f"```python\n{LONG_IMPORT}```\n```python\n{ROOT_ALONE}```\n",
        SHORT_IMPORT + ROOT_ALONE,
    ),
    "the last import of a name": (
        f"```python\nfrom cmath import sqrt\n```\n```python\n{SQRT}```\n```python\n{ROOT_ALONE}```\n",
        SQRT + ROOT_ALONE,
    ),
    "imports before prose, bare": (f"{IMPORT}\nNow the function:\n{ROOT}", IMPORT + ROOT),
    "signature first": (f"```python\ndef f(x):\n```\nThen:\n{FENCED}", F),
    "signature with docstring first": (f'```python\ndef f(x):\n    """Doc."""\n```\n{FENCED}', F),
    "signature with dots first": (f"```python\ndef f(x): ...\n```\n{FENCED}", F),
    "signature, then the body": (f"```python\ndef f(x):\n```\n```python\n{BODY}```\n", F),
    "signature alone": ("```python\ndef f(x):\n```\n", "def f(x):\n"),
    # The function of the module is preferred to a method or an inner function of the same name
    "method first": (f"```python\n{METHOD}```\n{FENCED}", F),
    "inner function first": (f"```python\n{OUTER}```\n{FENCED}", F),
    "method alone": (f"```python\n{METHOD}```\n", METHOD),
    "function under a condition": (
        f"```python\nif True:\n{indented(F, '    ')}```\n{DRAFT}",
        CONDITION,
    ),
    # Assignments
    "lambda": ("```python\nf = lambda x: x\n```\n", "f = lambda x: x\n"),
    "lambda with a type": (f"```python\n{TYPED_LAMBDA}```\n", TYPED_LAMBDA),
    "another name for the function": (f"```python\n{G}\nf = g\n```\n", f"{G}\nf = g\n"),
    "lambda without a fence": ("So:\n\nf = lambda x: x\n", "f = lambda x: x\n"),
    "lambda, then a function": (f"```python\nf = lambda x: 0\n```\nBetter:\n{FENCED}", F),
    "a call assigned to the name": (f"```python\nf = 3\n```\n{FENCED}", F),
    # Docstrings with fences that CommonMark takes for the end of the block
    "docstring fence at the left edge": (f"```python\n{LEFT_DOC}```\n", LEFT_DOC),
    "docstring fence indented by two": (f"```python\n{LEFT_DOC_2}```\nDone.\n", LEFT_DOC_2),
    "docstring fence with a language": (f"```python\n{LEFT_DOC_PY}```\n", LEFT_DOC_PY),
    # Code on the line of a tag or a fence
    "answer tag": (f"<answer>{F}</answer>", F),
    "answer tag, end tag on the last line": (f"<answer>{F.rstrip()}</answer>", F),
    "two tags": (f"<answer><code>{F}</code></answer>", F),
    "code on the fence's line": (f"```{F}```\n", F),
    "code on the fence's line after the language": (f"```python {F}```\n", F),
    "a tag that is part of the code": (f"<answer>{TAGGED}</answer>", TAGGED),
    # Bodies whose comments, strings or brackets reach the left edge keep their indentation
    "body, then a comment at the left edge": (
        "    return x\n# Test cases\n",
        "    return x\n# Test cases\n",
    ),
    "fenced body, then a comment": (f"```python\n{BODY}\n# Example\n```\n", f"{BODY}\n# Example\n"),
    "body with a string at the left edge": (STRING_BODY, STRING_BODY),
    "body with a commented line": (COMMENTED_BODY, COMMENTED_BODY),
    "body with a bracket at the left edge": (BRACKET_BODY, BRACKET_BODY),
    "body indented by two with a string": (
        '  s = """\n  a\nb"""\n  return s\n',
        '    s = """\n  a\nb"""\n    return s\n',
    ),
    "statements with a string": (
        's = """\na\n"""\nreturn s\n',
        '    s = """\na\n"""\n    return s\n',
    ),
    # Quotation marks that enclose no tag
    "apostrophes around a closing tag": (
        f"{DRAFT}I'd take the lists' max.</think>Here's it:\n{FENCED}",
        F,
    ),
    "inches before a closing tag": (f'{DRAFT}size 5" </think> so "f":\n{FENCED}', F),
    # Imports
    "import in a try statement": (
        f"```python\n{TRY_IMPORT}```\n```python\n{ROOT}```\n",
        IMPORT + ROOT,
    ),
    "import before the fence": (f"{IMPORT}\n```python\n{ROOT}```\n", IMPORT + ROOT),
    "import of several modules": (
        f"```python\nimport nosuch, math\n```\n```python\n{ROOT}```\n",
        IMPORT + ROOT,
    ),
    # Marks around code that are not fences
    "code, then a list": (f"{F}\n  - It returns x.\n", F),
    "triple quotation marks for a fence": (f"'''python\n{F}'''\n", F),
    "double ones": (f'"""python\n{F}"""\n', F),
    "inline code": ("`def f(x): return x`", "def f(x): return x\n"),
    "solution tokens": (f"<|begin_of_solution|>{F.rstrip()}<|end_of_solution|>", F),
    "code marks": (f"[CODE]{F.rstrip()}[/CODE]", F),
    "begin and done": (f"[BEGIN] {F.rstrip()} [DONE]", F),
    "the prompt repeated": (f"[INST] write f [/INST]\n{FENCED}", F),
    # __future__
    "future import, the only statement of a line's block": (
        f"if True: from __future__ import annotations\n{F}",
        f"if True: pass\n{F}",
    ),
    "future import": (f"```python\nfrom __future__ import annotations\n{F}```\n", F),
    "future import, semicolon": (
        f"from __future__ import annotations; import math\n{ROOT}",
        IMPORT + ROOT,
    ),
    "semicolon, future import": (
        f"import math; from __future__ import annotations\n{ROOT}",
        IMPORT + ROOT,
    ),
    "future import in parentheses": (
        f"from __future__ import (\n    annotations,\n)  # new\n{F}",
        F,
    ),
    "future import, comment": (f"from __future__ import division  # x\n{F}", F),
    "future import in a string": (
        "def f(x):\n    return 'from __future__ import x'\n",
        "def f(x):\n    return 'from __future__ import x'\n",
    ),
    "future import in a text of several lines": (
        'T = """\nfrom __future__ import x\n"""\n' + F,
        'T = """\nfrom __future__ import x\n"""\n' + F,
    ),
    "body with an inner function of the task's name": (
        "    def f(y):\n        return y + 1\n    return f(x)\n",
        None,
    ),
    "fenced body with an inner function of the task's name": (
        "```python\n    def f(y):\n        return y + 1\n    return f(x)\n```\n",
        "    def f(y):\n        return y + 1\n    return f(x)\n",
    ),
    "future import in a body": (
        f"    from __future__ import annotations\n{BODY}",
        f"    pass\n{BODY}",
    ),
}
EXPECTED = {
    "body with an inner function of the task's name": (
        "    def f(y):\n        return y + 1\n    return f(x)\n"
    ),
    "body indented by two": "    if x:\n      return x\n",
    "bare code twice, the longer": "def f(x):\n    y = x\n    return y\n",
    "body whose first line lost it": "    if x:\n        return 1\n    return 2\n",
    "wrong inside the function": "def f(x):\n    y = = 1\n    return x\n",
}


def test_covers_enough_forms():
    assert len(FORMS) >= 80


@pytest.mark.parametrize("form", FORMS)
def test_extracts_the_solution_from_each_form(form):
    text, solution = FORMS[form]
    assert extract(text, "f") == (EXPECTED[form] if solution is None else solution)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        (f"from __future__ import annotations; import math\n{ROOT}", True),
        (f'"""Doc."""\nfrom __future__ import annotations\n{F}', True),
        (f"# comment\nfrom __future__ import annotations\n{F}", True),
        (f"import math\nfrom __future__ import annotations\n{ROOT}", False),
    ],
)
def test_keeps_a_future_import_that_may_begin_the_program(code, kept):
    solution = extract(code, "f", starts_program=True)
    assert ("__future__" in solution) is kept
    compile(solution, "solution", "exec")


def test_inserts_imports_after_a_future_import():
    text = f"```python\n{IMPORT}```\n```python\nfrom __future__ import annotations\n{ROOT}```\n"
    solution = extract(text, "f", starts_program=True)
    assert solution == f"from __future__ import annotations\n{IMPORT}{ROOT}"


def test_a_model_may_define_its_own_reasoning_tags():
    text = f"<inner>{DRAFT}</inner>{FENCED}"
    assert extract(answer(text, [("<inner>", "</inner>")]), "f") == F
    assert answer(f"<inner>{DRAFT}", [("<inner>", "</inner>")]) == ""


PIECES = [
    *"``` ```python ```` ~~~ [PYTHON] [/PYTHON] </s> ' \" ''' > - 1. f".split(),
    "\n",
    "\n",
    " ",
    "    ",
]
PIECES += [
    "def f(x):",
    "    return x",
    "\ndef f(x): return 1\n",
    "\n```\n",
    "prose",
    "import math\n",
    "\r\n",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
TAGS = [tag for pair in REASONING_TAGS for tag in pair]


@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_no_continuation_changes_a_settled_solution(before, inside, after):
    text = f"{before}\n```python\n{F}{inside}\n```\n"
    assume(settled(text, "f"))
    assert extract(text + after, "f") == extract(text, "f")


@pytest.mark.parametrize(
    "after", [f"<answer>{F}</answer>", f"```python\n{METHOD}```\n", f"```{F}```", "f = g\n"]
)
def test_no_later_form_changes_a_settled_solution(after):
    text = "```python\n" + F + "# </answer>\n```\n"
    assert settled(text, "f")
    assert extract(text + after, "f") == extract(text, "f") == F + "# </answer>\n"
    assert not settled(f"```python\n{METHOD}```\n", "f")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), TEXTS)
def test_any_text_has_an_extraction(text, other):
    assert isinstance(extract(text + other, "f"), str)
    assert isinstance(extract(other + text, ""), str)


@pytest.mark.parametrize("opening", [pair[0] for pair in REASONING_TAGS])
def test_a_draft_in_open_reasoning_is_not_settled(opening):
    assert not settled(f"{opening}\n{DRAFT}", "f")
    assert settled(DRAFT, "f")


JUNK = {
    "prose": "This is (a line of prose, isn't it?\n" * 3000,
    "indented lines": "\n    x" * 16000,
    "quotes": "> " * 20 + "\n" + "x\n" * 40000,
    "lists": "- a\n  - b\n" * 10000,
    "fences": "```\n" * 25000,
    "definitions": "def f(x):\n" * 10000,
    "open brackets": "def f(x): return (\n" * 5000,
    "triple quotes": "def f(x): '''\n" * 7000,
    "backticks": "`" * 100_000,
    "tags": "[PYTHON]" * 12000,
    "closing tags": "'</think>\n" * 10000,
    "end tokens": "'</s>' " * 14000,
    "nesting": "def f(x): return " + "(" * 50_000,
    "one line": "x" * 100_000,
    "semicolons": "def f(x): pass;" * 6000,
    "marks in code": "def f(x):\n  x = (```\n" * 5000,
}


def _seconds_to_extract(text):
    gc.disable()  # A collection takes as long as other tests have left objects.
    try:
        started = time.process_time()
        extract(text, "f")
        settled(text, "f")
        return time.process_time() - started
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("kind", JUNK)
def test_time_grows_in_proportion_to_junk(kind):
    # Four times the text takes four times as long if the time is linear, and sixteen times if it is quadratic.
    # One measurement of three must show it, because other programs may slow down a single one.
    text = JUNK[kind]
    for _ in range(3):
        most = 6.5 * _seconds_to_extract(text[: len(text) // 4]) + 0.5
        seconds = _seconds_to_extract(text)
        if seconds < most:
            break
    assert seconds < most
