"""A completion as the public API gives it: the text of a model, with what is known about it."""

from dataclasses import dataclass

from pkg_lib.core.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote after one prompt.

    Attributes:
        text: The text as the model wrote it, reasoning included.
        model: The model.
        task_id: The task that the prompt asks for; "" if the text belongs to no task.
        finish: "end" if the model ended its text, "length" if a limit cut it, "settled" if
            generation stopped because further text could not change the solution.
        prompt_tokens: Number of tokens in the prompt; 0 if unknown.
        new_tokens: Number of tokens in the text; 0 if unknown.
    """

    text: str
    model: ModelSpec
    task_id: str = ""
    finish: str = "end"
    prompt_tokens: int = 0
    new_tokens: int = 0
