"""Generation with transformers: decoding in a rolling batch, greedy or sampled.

``model.generate`` keeps a batch until its slowest row is done. Here a finished row leaves at once,
and waiting prompts of similar length take its place. On two cores a step for 16 rows costs little
more than for one.
"""

from __future__ import annotations

import gc
import logging
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.import_utils import is_flash_attn_2_available

from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.answer_text import REASONING_TAGS
from pkg_lib.generation.batch_size import CPU_SLOTS, CacheShape, slots_for
from pkg_lib.generation.cpu_layers import multiply_in_float32
from pkg_lib.generation.extraction import settled
from pkg_lib.generation.growing_cache import (
    growing_cache,
    joined,
    order_without_gaps,
    return_freed_memory,
)
from pkg_lib.generation.prompts import turns

log = logging.getLogger(__name__)

MAX_NEW_TOKENS = 512  # Section 4
NEAR_SAMPLES = 200  # how often a token is sampled with slightly changed logits (verify-cache)
MOST_LIKELY = 512  # tokens among which a nucleus is searched first
# Chat models may end their turn with a token of its own, beside the checkpoint's end of text.
END_OF_TURN = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>")
CLOSING_MARKS = ("```", "~~~", "[/")  # an extraction can only settle where one of them is written
# Messages of errors without a specific type when a GPU's memory is full.
OUT_OF_MEMORY = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


@dataclass(slots=True)
class Row:
    """One prompt in a batch, and its answer so far.

    Attributes:
        request: The request.
        prompt: Token ids of the prompt.
        tokens: Token ids of the answer so far.
        numbers: The random numbers by which tokens are sampled. They are seeded by prompt and
            sample, so that the tokens do not depend on the row's neighbours in the batch.
    """

    request: Request
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    numbers: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Seed the random numbers."""
        self.numbers = random.Random(f"{self.request.sample} {self.request.text}")

    @property
    def prompt_tokens(self) -> int:
        """The number of tokens in the prompt."""
        return len(self.prompt)


Done = Callable[[Row, str, str], None]
Choose = Callable[[Tensor, list[Row]], list[int]]


def sampled(
    logits: Tensor,
    numbers: Tensor,
    temperature: float,
    top_p: float,
) -> Tensor:
    """Sample a token for each row from the nucleus of its distribution.

    Args:
        logits: Float tensor [rows, vocabulary].
        numbers: A random number in [0, 1) for each row [rows].
        temperature: Divides the logits; above 0.
        top_p: Probability mass of the nucleus.

    Returns:
        Token ids [rows].
    """
    probabilities = torch.softmax(logits.float() / temperature, -1)
    # A nucleus seldom has more tokens, and sorting a vocabulary takes longer than the model itself.
    count = min(MOST_LIKELY, probabilities.shape[-1])
    likely = probabilities.topk(count, sorted=False).indices
    likely = likely.sort(dim=-1).values
    likely_probabilities = probabilities.gather(-1, likely)
    columns = _sampled_columns(likely_probabilities, numbers, top_p)
    tokens = likely.gather(-1, columns[:, None])[:, 0]
    is_wide = likely_probabilities.sum(-1) < top_p
    wide = probabilities[is_wide]
    tokens[is_wide] = _sampled_columns(wide, numbers[is_wide], top_p)
    return tokens


def _sampled_columns(
    probabilities: Tensor,
    numbers: Tensor,
    top_p: float,
) -> Tensor:
    """Return the column on which each row's number falls; equal ones stay in order."""
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    in_nucleus = before < top_p
    mass = (ordered * in_nucleus).cumsum(-1)
    wanted = numbers[:, None].to(mass) * mass[:, -1:]
    place = torch.searchsorted(mass, wanted, right=True)
    last = in_nucleus.sum(-1, keepdim=True) - 1
    column = torch.minimum(place, last)
    return order.gather(-1, column)[:, 0]


class TransformersBackend:
    """A causal language model on the visible GPUs, else on the CPU.

    At a temperature above 0, the tokens of a request depend only on its text and its ``sample``,
    on one kind of device.

    Args:
        path: A directory as transformers saves it.
        slots: Number of rows that are decoded together. By default, GPUs decode as many as their
            free memory holds, and the CPU ``CPU_SLOTS``. If a GPU runs out of memory nevertheless,
            the rows in the batch start again with half the number, which is never exceeded again.
        dtype: The type of the weights.
        chat: Whether prompts are put into the model's chat template.
        stop: Tells of a row's text whether nothing after it counts. By default, whether its
            extraction is settled.
        max_new_tokens: The most new tokens of a row; ``MAX_NEW_TOKENS`` by default.

    Raises:
        UserError: The model cannot be loaded.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        slots: int | None = None,
        dtype: torch.dtype = torch.bfloat16,
        chat: bool = True,
        stop: Callable[[str], bool] | None = None,
        max_new_tokens: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"dtype": dtype}
        if torch.cuda.is_available():
            options["device_map"] = "auto"  # the layers are distributed over all GPUs
        if dtype.itemsize == 2 and is_flash_attn_2_available():
            options["attn_implementation"] = "flash_attention_2"
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(path)
            model: Any = AutoModelForCausalLM.from_pretrained(path, **options)
        except (OSError, ValueError) as e:
            reason = str(e).strip().partition("\n")[0]
            advice = "fetch it again or check your access to the hub"
            raise UserError(f"model {path} cannot be loaded ({reason}); {advice}") from e
        self.model = model.eval()
        self.device = model.device
        if self.device.type == "cpu":
            multiply_in_float32(self.model)
        self.slots = slots
        self.most_slots = sys.maxsize  # falls when the GPU runs out of memory
        self.chat = chat
        self.stop = stop
        self.max_new_tokens = max_new_tokens or MAX_NEW_TOKENS
        self.ends = self._end_tokens()
        self.opened_tag = ""  # the reasoning tag with which the chat template begins the answer

    def _end_tokens(self) -> set[int]:
        """Collect the ids of the tokens that end an answer."""
        configured = self.model.generation_config.eos_token_id
        ends = {*configured} if isinstance(configured, list) else {configured}
        # An unknown name becomes the unknown token, which for StarCoder2 is the end token.
        named = {*map(self.tokenizer.convert_tokens_to_ids, END_OF_TURN)}
        ends |= named - {self.tokenizer.unk_token_id}
        ends.add(self.tokenizer.eos_token_id)
        return ends - {None}

    def prompt_ids(self, request: Request) -> list[int]:
        """Return the token ids of a prompt as the model receives it.

        Args:
            request: The request. Its text is put into the chat template if the backend uses one and
                the request does not forbid it.

        Returns:
            Token ids.
        """
        if not self.chat or request.as_it_is:
            ids: list[int] = self.tokenizer(request.text)["input_ids"]
            return ids
        conversation = turns(request.text)
        text = self.tokenizer.apply_chat_template(
            conversation, tokenize=False, add_generation_prompt=True
        )
        self.opened_tag = _opened_reasoning(text)
        # The chat template contains the start token; otherwise the tokenizer adds it.
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    @torch.inference_mode()
    def generate(
        self,
        requests: list[Request],
        done: Done,
        temperature: float = 0.0,
        top_p: float = 1.0,
    ) -> None:
        """Complete requests.

        Args:
            requests: The requests.
            done: Is called with the row, its text and its finish as each request ends. The finish
                is "end", "settled" (by ``stop``) or "length".
            temperature: 0 for greedy decoding.
            top_p: Probability mass from which tokens are sampled.

        Raises:
            UserError: Not even one prompt fits into the GPU's memory.
        """

        def choose(logits: Tensor, rows: list[Row]) -> list[int]:
            if not temperature:
                return logits.argmax(-1).tolist()
            numbers = [row.numbers.random() for row in rows]
            drawn = torch.tensor(numbers, device=self.device)
            return sampled(logits, drawn, temperature, top_p).tolist()

        waiting = [Row(request, self.prompt_ids(request)) for request in requests]
        slots = min(self.slots or self._slots(waiting), self.most_slots)
        waiting.sort(key=lambda row: (row.prompt_tokens, row.request.text), reverse=True)
        batch = _Batch(self.model, self.device, choose)
        while waiting or batch.rows:
            try:
                self._decode(batch, waiting, slots, done)
            except RuntimeError as e:
                if not _is_out_of_memory(e):
                    raise
                if slots == 1:
                    name = self.model.config._name_or_path
                    fault = "not even one prompt fits into the GPU's memory"
                    raise UserError(f"model {name}: {fault}") from e
            else:
                continue
            # Here the error is gone, whose traceback held the batch.
            slots //= 2
            self.most_slots = slots
            log.warning("the GPU ran out of memory; going on with %d prompts at a time", slots)
            # The same tokens come again, because random numbers are seeded by the prompt.
            waiting += [Row(row.request, row.prompt) for row in batch.rows]
            batch = _Batch(self.model, self.device, choose)
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
        gc.collect()

    def _decode(self, batch: _Batch, waiting: list[Row], slots: int, done: Done) -> None:
        """Admit waiting rows if enough places are free, then add one token to every row."""
        free = slots - len(batch.rows)
        group = max(1, slots // 4)
        # A prefill stalls the rows that decode, so it waits until a few places are free.
        if waiting and (not batch.rows or free >= group):
            count = min(free, len(waiting), group)
            admitted = [waiting.pop() for _ in range(count)]
            batch.admit(admitted)
            self._retire(batch, done)
        if batch.rows:
            batch.step()
            self._retire(batch, done)

    def _slots(self, rows: list[Row]) -> int:
        """Return how many rows are decoded together if the user gives no number."""
        if self.device.type != "cuda":
            return CPU_SLOTS
        free = sum(map(_free_bytes, range(torch.cuda.device_count())))
        longest = max((row.prompt_tokens for row in rows), default=1)
        shape = CacheShape.of(self.model.config)
        return slots_for(shape, free, 0, longest + self.max_new_tokens)

    def _retire(self, batch: _Batch, done: Done) -> None:
        """Report the rows that are finished, and remove them from the batch."""
        kept = []
        for index, row in enumerate(batch.rows):
            finish = self.finish(row)
            if finish:
                text = self.tokenizer.decode(row.tokens, skip_special_tokens=True)
                done(row, text, finish)
            else:
                kept.append(index)
        batch.keep(kept)

    def finish(self, row: Row) -> str:
        """Tell whether a row is finished after its last token; an end token is removed.

        Args:
            row: A row with at least one token.

        Returns:
            "end", "settled" or "length"; "" if the row is not finished.
        """
        if row.tokens[-1] in self.ends:
            row.tokens.pop()
            return "end"
        if not row.request.whole_answer and self._is_settled(row):
            return "settled"
        most = row.request.max_new_tokens or self.max_new_tokens
        return "length" if len(row.tokens) >= most else ""

    def _is_settled(self, row: Row) -> bool:
        if self.stop is not None:
            return self.stop(self.tokenizer.decode(row.tokens))
        tail = self.tokenizer.decode(row.tokens[-6:])
        if not any(mark in tail for mark in CLOSING_MARKS):
            return False
        text = self.opened_tag + self.tokenizer.decode(row.tokens)
        return settled(text, row.request.entry_point)

    def _next_logits(self, request: Request, tokens: list[int]) -> Tensor:
        """Return the float32 logits [vocabulary] after a prompt and some tokens of its answer."""
        ids = self.prompt_ids(request) + tokens
        output = self.model(
            input_ids=torch.tensor([ids], device=self.device),
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[0, -1]
        return logits.float().cpu()

    @torch.inference_mode()
    def gap(
        self,
        request: Request,
        tokens: list[int],
        pair: list[int],
    ) -> tuple[float, float]:
        """Measure how close two tokens are after a prompt and some tokens of its answer.

        Args:
            request: The request.
            tokens: The first tokens of the answer.
            pair: Two token ids.

        Returns:
            The distance of their logits, and the spacing of bfloat16 numbers of that size.
        """
        first, second = self._next_logits(request, tokens)[pair].tolist()
        size = max(abs(first), abs(second))
        return abs(first - second), _spacing(size)

    @torch.inference_mode()
    def near_samples(
        self,
        request: Request,
        tokens: list[int],
        temperature: float,
        top_p: float,
    ) -> set[int]:
        """Sample a token of an answer again with logits that are at most two spacings off.

        Args:
            request: The request.
            tokens: The tokens of the answer before.
            temperature: As for ``generate``.
            top_p: As for ``generate``.

        Returns:
            The token ids that the row's random number selects.
        """
        logits = self._next_logits(request, tokens)
        generator = torch.Generator().manual_seed(0)
        noise = torch.rand(NEAR_SAMPLES, len(logits), generator=generator) - 0.5
        numbers = Row(request, []).numbers
        for _ in tokens:
            numbers.random()
        number = torch.full((NEAR_SAMPLES,), numbers.random())
        spacing = _spacing(float(logits.abs().max()))
        changed = logits + noise * 4 * spacing
        return set(sampled(changed, number, temperature, top_p).tolist())


def _free_bytes(gpu: int) -> int:
    """Return the free memory of a GPU, with what PyTorch has cached but does not use."""
    free, _ = torch.cuda.mem_get_info(gpu)
    cached = torch.cuda.memory_reserved(gpu) - torch.cuda.memory_allocated(gpu)
    return free + cached


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Tell whether an error means that a GPU has too little memory; libraries raise their own."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in OUT_OF_MEMORY)


def _spacing(size: float) -> float:
    """Return the distance between neighbouring bfloat16 numbers of a size."""
    exponent = math.floor(math.log2(max(size, 1e-9)))
    return 2.0 ** (exponent - 7)


def _opened_reasoning(prompt: str) -> str:
    """Return the reasoning tag at the end of a prompt, which the answer continues; "" without."""
    for opening, _ in REASONING_TAGS:
        if prompt.rstrip().endswith(opening):
            return opening
    return ""


class _Batch:
    """The rows that are decoded together, with their attention mask and key-value cache.

    The mask has the shape [rows, columns]. Rows are padded on the left.
    """

    def __init__(
        self,
        model: Any,
        device: torch.device,
        choose: Choose,
    ) -> None:
        self.model = model
        self.device = device
        self.choose = choose
        self.rows: list[Row] = []
        self.mask = torch.empty(0, device=device)
        self.cache: Any = None

    def admit(self, rows: list[Row]) -> None:
        """Prefill new rows together and add them; their first token comes from the prefill.

        Samples of one prompt share its prefill, which is half of the work.
        """
        self.rows += rows
        prompts: list[list[int]] = []
        for row in rows:
            if row.prompt not in prompts:
                prompts.append(row.prompt)
        ids = self._padded(prompts)
        ones = [[1] * len(prompt) for prompt in prompts]
        mask = self._padded(ones)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = growing_cache()
        logits = self._forward(ids, mask, positions, cache)
        # Indices are on the CPU, so that layers on any GPU can use them.
        places = [prompts.index(row.prompt) for row in rows]
        prompt_of_row = torch.tensor(places)
        cache.batch_select_indices(prompt_of_row)
        mask = mask[prompt_of_row]
        self._append(rows, logits[prompt_of_row])
        if self.cache is None:
            self.mask, self.cache = mask, cache
            return
        masks = (self.mask, mask)
        width = max(m.shape[1] for m in masks)
        padded = []
        for old in masks:
            missing = width - old.shape[1]
            padded.append(pad(old, (missing, 0)))
        self.mask = torch.cat(padded)
        self.cache = joined(self.cache, cache, width)
        return_freed_memory()

    def _padded(self, sequences: list[list[int]]) -> Tensor:
        """Stack sequences of numbers, padded on the left with zeros."""
        tensors = [torch.tensor(numbers, dtype=torch.long) for numbers in sequences]
        stacked = pad_sequence(tensors, batch_first=True, padding_side="left")
        return stacked.to(self.device)

    def step(self) -> None:
        """Decode one token of every row."""
        last_tokens = [row.tokens[-1:] for row in self.rows]
        last = torch.tensor(last_tokens, device=self.device)
        self.mask = pad(self.mask, (0, 1), value=1)
        positions = self.mask.sum(1, keepdim=True) - 1
        logits = self._forward(last, self.mask, positions, self.cache)
        self._append(self.rows, logits)

    def _append(self, rows: list[Row], logits: Tensor) -> None:
        """Append the chosen token to each row."""
        tokens = self.choose(logits, rows)
        for row, token in zip(rows, tokens, strict=True):
            row.tokens.append(token)

    def keep(self, indices: list[int]) -> None:
        """Remove all other rows, and the columns on the left that are padding for all that stay."""
        if len(indices) == len(self.rows):
            return
        order = order_without_gaps(indices)
        self.rows = [self.rows[i] for i in order]
        if not self.rows:
            self.cache = None
            return
        chosen = torch.tensor(order)
        is_used = self.mask[chosen].any(0)
        start = int(is_used.int().argmax())
        self.mask = self.mask[chosen, start:]
        for layer in self.cache.layers:
            layer.keep(order, start)

    def _forward(
        self,
        ids: Tensor,
        mask: Tensor,
        positions: Tensor,
        cache: Any,
    ) -> Tensor:
        """Run the model and return the logits [rows, vocabulary] of the last column."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits
