"""The names of DKB's methods and the way in which models are prompted, for study and benchmark."""

from pkg_lib.generation.generator import Decoding

MODEL = "qwen2.5-coder-1.5b-instruct"
# The paper's pipelines (Section 5.1). SAME_SIZE is ours: No-Graph with contexts as long as DKB's.
BASE = "No-Graph"
SAME_SIZE = "No-Graph, same size"
OURS = "DKB"
LLM_KB = "LLM-KB"
ARMS = (BASE, SAME_SIZE, OURS, LLM_KB)
ANSWER_TOKENS = 256


def decoding(stage: str, most: int, style: str) -> Decoding:
    """Return greedy decoding, in which the model alone decides where an answer ends.

    Args:
        stage: "extraction" or "questions"; a part of the completion's key.
        most: The most tokens of an answer.
        style: Prompt style of the model.

    Returns:
        The decoding. Eight prompts are decoded together, since contexts have about 5,000 tokens.
    """
    parameters = {
        "do_sample": False,
        "dtype": "bfloat16",
        "max_new_tokens": most,
        "stage": stage,
        "style": style,
    }
    return Decoding(parameters, stop=_never, slots=8)


def _never(text: str) -> bool:
    return False
