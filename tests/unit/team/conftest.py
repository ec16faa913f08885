"""A tokenizer that knows every byte, a tiny model that speaks it, and engines whose replies a test writes."""

import pytest

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_tokenizer(template: str | None = TEMPLATE):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # type: ignore[assignment]
    inner.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>", chat_template=template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|user|>", "<|assistant|>"]})
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def tokenizer_that_opens_thinking():
    return make_tokenizer(TEMPLATE.replace("<|assistant|>", "<|assistant|><think>\n"))


@pytest.fixture(scope="session")
def tokenizer_without_template():
    return make_tokenizer(None)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A base model as it lies on a disk, with random weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.3,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, 7]  # type: ignore[assignment]
    model.save_pretrained(folder)
    return folder
