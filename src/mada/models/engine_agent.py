"""An agent on an engine: prompt text, chat template, tokens, completion, response."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from mada.debate.prompts import FittedPrompt, Prompts, WindowError, fit_debate_prompt
from mada.debate.transcript import Response, Turn
from mada.grading.extraction import THINKING_OPENS, extract_answer
from mada.models.chat import check_chat_template, encode_in_thread, encoder_of, opens_thinking, text_of
from mada.models.engines import Completion, Engine, Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class EngineAgent:
    """An agent that samples from an adapter of an engine, or from the bare base when `adapter` is `None` (I4).

    `window` is the longest row, reply included; a prompt gets what `sampling.max_tokens` leaves of it. The seed of
    `sampling` is not used: every turn has its own.
    """

    def __init__(
        self,
        name: str,
        adapter: str | None,
        *,
        engine: Engine,
        tokenizer: "PreTrainedTokenizerBase",
        prompts: Prompts,
        sampling: Sampling,
        window: int,
    ) -> None:
        check_chat_template(tokenizer)
        if sampling.max_tokens >= window:
            raise WindowError(
                f"{name}: replies of up to {sampling.max_tokens:,} tokens leave no room for a prompt in a window of "
                f"{window:,}; lower max_new_tokens, or use a model with a longer window"
            )
        self.name = name
        self.adapter = adapter
        self.sampling = sampling
        self.prompts = prompts
        self.window = window
        self._engine = engine
        self._tokenizer = tokenizer
        self._encode = encoder_of(tokenizer)

    async def answer(self, question: str, seen: Sequence[Response], *, seed: int) -> Turn:
        """Sample one reply to the question, or to the question and the responses of the round before."""
        seen = self.prompts.ordered(seen, seed=seed)
        fitted, (rendered, ids) = await encode_in_thread(
            lambda: self._encoded(question, seen), characters=len(question) + sum(len(one.text) for one in seen)
        )
        [completion] = await self._engine.sample(self.adapter, ids, replace(self.sampling, seed=seed))
        response = response_of(completion, self._tokenizer, thinking_opened=opens_thinking(rendered))
        return Turn(
            agent=self.name,
            prompt=rendered,
            prompt_tokens=len(ids),
            response=response,
            shortened_responses=fitted.shortened_responses,
            characters_left_out=fitted.characters_left_out,
        )

    def _encoded(self, question: str, seen: Sequence[Response]) -> tuple[FittedPrompt, tuple[str, tuple[int, ...]]]:
        fitted = self._prompt(question, seen)
        return fitted, self._encode(fitted.text)

    def _prompt(self, question: str, seen: Sequence[Response]) -> FittedPrompt:
        budget = self.window - self.sampling.max_tokens
        if seen:
            return fit_debate_prompt(
                question, seen, prompts=self.prompts, count_tokens=self._count_tokens, budget=budget
            )
        text = self.prompts.ask(question)
        tokens = self._count_tokens(text)
        if tokens > budget:
            raise WindowError(
                f"the question does not fit: with its prompt it has {tokens:,} tokens, and the window of "
                f"{self.window:,} leaves {budget:,} beside a reply of up to {self.sampling.max_tokens:,}; "
                "shorten the question, use a model with a longer window, or a smaller max_new_tokens"
            )
        return FittedPrompt(text, tokens, shortened_responses=0, characters_left_out=0)

    def _count_tokens(self, text: str) -> int:
        return len(self._encode(text)[1])


def response_of(
    completion: Completion, tokenizer: "PreTrainedTokenizerBase", *, thinking_opened: bool, keep_tokens: bool = False
) -> Response:
    """Turn sampled tokens into a response.

    Where the prompt opened the thinking block, the text begins with that opening, so that the next round, which does
    not see the prompt, can tell thinking from conclusion. `keep_tokens` keeps token ids and log-probabilities too,
    which make records many times as large.
    """
    text = text_of(completion.token_ids, tokenizer)
    return Response(
        text=f"{THINKING_OPENS}\n{text}" if thinking_opened else text,
        # A reply that a server filtered or gave up has no answer, whatever it says.
        answer=None if completion.stop == "failed" else extract_answer(text, thinking_opened=thinking_opened),
        token_count=len(completion.token_ids),
        stop=completion.stop,
        token_ids=completion.token_ids if keep_tokens else None,
        log_probs=completion.log_probs if keep_tokens else None,
        # Three decimals: the last digits of sums depend on the batch, and a record should not.
        mean_log_prob=round(fmean(completion.log_probs), 3) if completion.log_probs else None,
    )
