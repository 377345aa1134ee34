"""Generation with transformers: decoding in a rolling batch, greedy or sampled.

`model.generate` keeps a batch until its slowest row is done; here a finished row leaves at once and waiting
prompts of similar length take its place. On two cores a step for 16 rows costs little more than for one.
"""

from __future__ import annotations

import gc
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.utils import is_flash_attn_2_available

from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.answer_text import REASONING_TAGS
from pkg_lib.generation.batch_size import CPU_SLOTS, CacheShape, slots_for
from pkg_lib.generation.extraction import settled
from pkg_lib.generation.prompts import turns

log = logging.getLogger(__name__)

MAX_NEW_TOKENS = 512  # Section 4
LIKELY = 512  # tokens among which a nucleus is looked for first


@dataclass(slots=True)
class Row:
    """One prompt in flight, and the tokens that came so far."""

    request: Request
    prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    draws: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Seeded by prompt and sample, so that the tokens do not depend on the row's neighbours in the batch.
        self.draws = random.Random(f"{self.request.sample} {self.request.text}")


def sampled(
    logits: torch.Tensor, draws: torch.Tensor, temperature: float, top_p: float
) -> torch.Tensor:
    """A token a row of `logits` [rows, vocabulary] from the nucleus of mass `top_p`; `draws` in [0, 1)."""
    whole = torch.softmax(logits.float() / temperature, -1)
    # A nucleus seldom has more tokens, and to sort a vocabulary takes longer than the model itself.
    likely = whole.topk(min(LIKELY, whole.shape[-1]), sorted=False).indices.sort(dim=-1).values
    tokens = _drawn(whole.gather(-1, likely), draws, top_p)
    tokens = likely.gather(-1, tokens[:, None])[:, 0]
    wide = whole.gather(-1, likely).sum(-1) < top_p
    tokens[wide] = _drawn(whole[wide], draws[wide], top_p)
    return tokens


def _drawn(probabilities: torch.Tensor, draws: torch.Tensor, top_p: float) -> torch.Tensor:
    """The column that each row's draw falls on; among equal ones the first leads."""
    probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = probabilities.cumsum(-1) - probabilities
    mass = (probabilities * (before < top_p)).cumsum(-1)
    place = torch.searchsorted(mass, draws[:, None].to(mass) * mass[:, -1:], right=True)
    return order.gather(-1, torch.minimum(place, (before < top_p).sum(-1, keepdim=True) - 1))[:, 0]


class TransformersBackend:
    """A causal language model on the GPUs that are visible, else the CPU; `slots` rows are decoded together.

    Without a number of slots, GPUs decode as many rows as their free memory holds, and the CPU CPU_SLOTS.
    Where a GPU runs out of memory all the same, the number is halved and the rows in flight start again.

    `stop` says of a row's text whether nothing after it counts (by default: its extraction is settled). At a
    temperature above 0 a request's tokens depend on its text and `sample` alone, on one kind of device.
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
        flash = dtype.itemsize == 2 and is_flash_attn_2_available()
        gpus = (
            {"device_map": "auto"} if torch.cuda.is_available() else {}
        )  # its layers, over all of them
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
            gpus |= {"attn_implementation": "flash_attention_2"} if flash else {}
            self.model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **gpus).eval()
            self.device = self.model.device
        except (OSError, ValueError) as e:
            reason = str(e).strip().partition("\n")[0]
            advice = "fetch it again or check your access to the hub"
            raise UserError(f"model {path} cannot be loaded ({reason}); {advice}") from e
        self.opened = ""  # the reasoning tag with which the chat template begins the answer
        self.slots, self.chat, self.stop, self.max_new_tokens = slots, chat, stop, max_new_tokens
        end = self.model.generation_config.eos_token_id
        ends = {self.tokenizer.eos_token_id, *(end if isinstance(end, list) else [end])}
        # Chat models may end their turn with a token of its own, whatever the checkpoint calls its end of
        # text. An unknown name becomes the unknown token, which for StarCoder2 is the end token.
        marks = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>")
        named = {self.tokenizer.convert_tokens_to_ids(t) for t in marks}
        self.ends = {t for t in ends | (named - {self.tokenizer.unk_token_id}) if t is not None}

    def _prompt_ids(self, request: Request) -> list[int]:
        """The token ids of a prompt, in the model's chat template unless the request forbids it."""
        if request.as_it_is:
            return self.tokenizer([request.text])["input_ids"][0]
        return self._ids([request.text])[0]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        if not self.chat or not texts:
            return self.tokenizer(texts)["input_ids"] if texts else []
        chats = [turns(text) for text in texts]
        full = self.tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        self.opened = _opened_reasoning(full[0])
        # The chat template writes the start token itself, a plain template leaves it to the tokenizer.
        return self.tokenizer(full, add_special_tokens=False)["input_ids"]

    @torch.inference_mode()
    def generate(
        self,
        requests: list[Request],
        done: Callable[[Row, str, str], None],
        temperature: float = 0.0,
        top_p: float = 1.0,
    ) -> None:
        """Calls `done(row, raw, finish)` as each request ends: by "end", "settled" (`stop`) or "length"."""
        ids = [self._prompt_ids(request) for request in requests]
        slots = self.slots or self._slots(max(map(len, ids), default=1))
        rows = [(Row(r, len(i)), i) for r, i in zip(requests, ids, strict=True)]
        encoded = sorted(rows, key=lambda x: (len(x[1]), x[0].request.text), reverse=True)
        drawn = partial(self._choose, temperature, top_p)
        choose = drawn if temperature else lambda logits, _: logits.argmax(-1).tolist()
        batch = _Batch(self.model, self.device, choose)
        waiting = {
            id(row): prompt for row, prompt in encoded
        }  # the ids of prompts that have no answer yet
        while encoded or batch.rows:
            in_flight = list(batch.rows)
            try:
                free, group = slots - len(batch.rows), max(1, slots // 4)
                # A prefill stalls the rows that decode, so it waits until a few places are free.
                if encoded and (not batch.rows or free >= group):
                    admitted = [encoded.pop() for _ in range(min(free, len(encoded), group))]
                    in_flight += [row for row, _ in admitted]
                    batch.admit(admitted)
                    self._retire(batch, done)
                    in_flight = list(batch.rows)
                if batch.rows:
                    batch.step()
                    self._retire(batch, done)
            except torch.cuda.OutOfMemoryError as e:
                if slots == 1:
                    name = self.model.config._name_or_path
                    raise UserError(
                        f"model {name}: not even one prompt fits into the GPU's memory"
                    ) from e
                slots //= 2
                log.warning("the GPU ran out of memory; going on with %d prompts at a time", slots)
                batch = _Batch(self.model, self.device, choose)
                # Their tokens are lost; the same ones come again, since draws are seeded by the prompt.
                again = [
                    (Row(row.request, row.prompt_tokens), waiting[id(row)]) for row in in_flight
                ]
                waiting |= {id(row): prompt for row, prompt in again}
                encoded += again
                gc.collect()
                torch.cuda.empty_cache()
        gc.collect()

    def _slots(self, longest: int) -> int:
        """How many rows are decoded together where the user names no number."""
        if self.device.type != "cuda":
            return CPU_SLOTS
        free = sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(torch.cuda.device_count()))
        tokens = longest + (self.max_new_tokens or MAX_NEW_TOKENS)
        return slots_for(CacheShape.of(self.model.config), free, 0, tokens)

    @torch.inference_mode()
    def gap(self, request: Request, tokens: list[int], pair: list[int]) -> tuple[float, float]:
        """(distance of two tokens' logits after prompt + tokens, spacing of bfloat16 at their size)."""
        ids = torch.tensor([self._prompt_ids(request) + tokens], device=self.device)
        first, second = (
            self.model(input_ids=ids, logits_to_keep=1).logits[0, -1].float()[pair].tolist()
        )
        size = max(abs(first), abs(second), 1e-9)
        return abs(first - second), 2.0 ** (math.floor(math.log2(size)) - 7)

    @torch.inference_mode()
    def near_draws(
        self,
        request: Request,
        tokens: list[int],
        temperature: float,
        top_p: float,
        times: int = 200,
    ) -> set[int]:
        """What the row's random number draws after prompt + tokens, with logits two spacings off at most."""
        ids = torch.tensor([self._prompt_ids(request) + tokens], device=self.device)
        logits = self.model(input_ids=ids, logits_to_keep=1).logits[0, -1].float().cpu()
        noise = torch.rand(times, len(logits), generator=torch.Generator().manual_seed(0)) - 0.5
        draws = Row(request, 0).draws
        number = [draws.random() for _ in range(len(tokens) + 1)][-1]
        spacing = 2.0 ** (math.floor(math.log2(logits.abs().max().clamp(min=1e-9))) - 7)
        return {
            *sampled(
                logits + noise * 4 * spacing, torch.full((times,), number), temperature, top_p
            ).tolist()
        }

    def _choose(
        self, temperature: float, top_p: float, logits: torch.Tensor, rows: list[Row]
    ) -> list[int]:
        draws = torch.tensor([row.draws.random() for row in rows], device=self.device)
        return sampled(logits, draws, temperature, top_p).tolist()

    def _retire(self, batch: _Batch, done: Callable[[Row, str, str], None]) -> None:
        keep = []
        for i, row in enumerate(batch.rows):
            finish = self._finish(row)
            if finish:
                done(row, self.tokenizer.decode(row.tokens, skip_special_tokens=True), finish)
            else:
                keep.append(i)
        batch.keep(keep)

    def _finish(self, row: Row) -> str:
        if row.tokens[-1] in self.ends:
            row.tokens.pop()
            return "end"
        if self._settled(row):
            return "settled"
        return "length" if len(row.tokens) >= (self.max_new_tokens or MAX_NEW_TOKENS) else ""

    def _settled(self, row: Row) -> bool:
        if row.request.whole_answer:
            return False
        if self.stop is not None:
            return self.stop(self.tokenizer.decode(row.tokens))
        tail = self.tokenizer.decode(row.tokens[-6:])
        closes = any(mark in tail for mark in ("```", "~~~", "[/"))
        return closes and settled(
            self.opened + self.tokenizer.decode(row.tokens), row.request.entry_point
        )


def _opened_reasoning(prompt: str) -> str:
    """The reasoning tag at the end of a prompt, which the answer continues; "" without one."""
    return next((opening for opening, _ in REASONING_TAGS if prompt.rstrip().endswith(opening)), "")


class _Batch:
    """The rows in flight, their attention mask [rows, columns] and key-value cache, padded on the left."""

    def __init__(self, model: Any, device: torch.device, choose: Callable[..., list[int]]) -> None:
        self.model, self.device, self.choose = model, device, choose
        self.rows: list[Row] = []
        self.mask = torch.zeros((0, 0), dtype=torch.long, device=device)
        self.cache: DynamicCache | None = None

    def admit(self, group: list[tuple[Row, list[int]]]) -> None:
        """Prefills new rows together and joins them; their first token comes from the prefill.

        Samples of one prompt share its prefill, which is half of the work.
        """
        prompts = {tuple(ids): None for _, ids in group}
        width, cache = max(map(len, prompts)), DynamicCache()
        ids = torch.tensor([[0] * (width - len(i)) + [*i] for i in prompts], device=self.device)
        mask = torch.tensor(
            [[0] * (width - len(i)) + [1] * len(i) for i in prompts], device=self.device
        )
        logits = self._forward(ids, mask, (mask.cumsum(1) - 1).clamp(min=0), cache)
        rows, places = [row for row, _ in group], {ids: i for i, ids in enumerate(prompts)}
        of_row = torch.tensor(
            [places[tuple(ids)] for _, ids in group]
        )  # on the CPU: for layers of any GPU
        logits, mask = logits[of_row], mask[of_row]
        cache.batch_select_indices(of_row)
        for row, token in zip(rows, self.choose(logits, rows), strict=True):
            row.tokens.append(token)
        if self.cache is None:
            self.mask, self.cache = mask, cache
        else:
            width = max(self.mask.shape[1], mask.shape[1])
            self.cache = _join(self.cache, cache, width)
            self.mask = torch.cat([pad(m, (width - m.shape[1], 0)) for m in (self.mask, mask)])
        self.rows += rows

    def step(self) -> None:
        """Decodes one token for every row."""
        last = torch.tensor([[r.tokens[-1]] for r in self.rows], device=self.device)
        self.mask = torch.cat([self.mask, self.mask.new_ones((len(self.rows), 1))], dim=1)
        logits = self._forward(last, self.mask, self.mask.sum(1, True) - 1, self.cache)
        for row, token in zip(self.rows, self.choose(logits, self.rows), strict=True):
            row.tokens.append(token)

    def keep(self, indices: list[int]) -> None:
        """Drops finished rows, and the columns on the left that are padding for all that stay."""
        if len(indices) == len(self.rows):
            return
        self.rows = [self.rows[i] for i in indices]
        if not self.rows:
            self.cache, self.mask = None, self.mask[:0, :0]
            return
        chosen = torch.tensor(indices)
        start = int(self.mask[chosen].any(0).int().argmax())
        self.mask = self.mask[chosen, start:]
        for layer in self.cache.layers:
            layer.keys, layer.values = (
                layer.keys[chosen, :, start:],
                layer.values[chosen, :, start:],
            )

    def _forward(self, ids: Any, mask: torch.Tensor, positions: Any, cache: Any) -> torch.Tensor:
        options = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
        return self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, **options
        ).logits[:, -1]


def _join(a: DynamicCache, b: DynamicCache, width: int) -> DynamicCache:
    # No config: layers made for sliding windows count the tokens they saw, and rows that leave would put that
    # count wrong. The whole cache is kept instead; the attention mask limits the window all the same.
    joined = DynamicCache()
    for i, (x, y) in enumerate(zip(a.layers, b.layers, strict=True)):
        pairs = (x.keys, y.keys), (x.values, y.values)  # [rows, heads, columns, size]
        wide = ([pad(t, (0, 0, width - t.shape[2], 0)) for t in pair] for pair in pairs)
        joined.update(*map(torch.cat, wide), i)
    return joined
