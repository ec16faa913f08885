"""The embedded model's tokenizer: digits one by one, the task's words whole, and the paper's prompts a token a part.

Every text can be encoded, byte by byte where nothing better is known.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from mada.debate.prompts import CUT_OFF, DEBATE_HEADER, DEBATE_REQUEST, DEBATE_RESPONSE, REASONING

USER, ASSISTANT, END, PAD = "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_WORDS = r" [-+*=] |\d|\n| ?\p{L}+|[^\s\d\p{L}]|\s"
_MOST_WORDS = 1024


def phrases() -> list[str]:
    """Return the fixed parts of the paper's prompts and of its last line."""
    instructions, _, _ = REASONING.partition("{question}")
    before, _, after = DEBATE_RESPONSE.partition("{response}")
    wanted = instructions.partition("'")[2].partition("' (without quotes)")[0]
    last_line, _, ending = wanted.partition("ANSWER")
    return [
        *(instructions, f"\n\n{DEBATE_HEADER}\n\n", before, f"{after}\n\n", DEBATE_REQUEST),
        *(last_line, ending, f" {CUT_OFF}"),
    ]


def make_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learn the words of some texts, and know the prompts' parts beforehand."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=_MOST_WORDS,
        min_frequency=20,
        special_tokens=[PAD, END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases()])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, window: int) -> None:
    """Write the tokenizer and its chat template as transformers reads them."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": window,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
