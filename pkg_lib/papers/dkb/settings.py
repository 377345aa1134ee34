"""What DKB's study and its benchmark share: the columns by name, and how a model is asked."""

from pkg_lib.generation.generator import Decoding

MODEL = "qwen2.5-coder-1.5b-instruct"
BASE, SAME_SIZE, OURS, LLM_KB = "No-Graph", "No-Graph, same size", "DKB", "LLM-KB"
ANSWER_TOKENS = 256


def decoding(stage: str, most: int, style: str) -> Decoding:
    """Greedy; the model alone decides where an answer of at most so many tokens ends."""
    parameters = {"do_sample": False, "dtype": "bfloat16", "max_new_tokens": most, "stage": stage}
    # Eight at once: the contexts have some 5,000 tokens each.
    return Decoding(parameters | {"style": style}, stop=lambda text: False, slots=8)
