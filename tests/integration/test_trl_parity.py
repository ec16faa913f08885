"""Our loss and gradients are TRL's: the same tiny model, adapter, completions and rewards through its GRPOTrainer.

TRL is driven as a user drives it, for one step of `train()`; only its sampler is replaced, by one that returns the
completions at hand. The counterfactual advantage, which TRL does not have, replaces the advantages it computed.
"""

import copy
import random

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback

from mada.learning.advantages import Baseline, counterfactual, group_relative
from mada.learning.batches import CreditedCompletion
from mada.learning.learner import Learner
from mada.models.adapters import AdapterStack, Lora
from mada.recipe.schema import LossAggregation, TrainingSettings

pytest.importorskip("trl")
peft = pytest.importorskip("peft")
datasets = pytest.importorskip("datasets")

PROMPTS, GROUP, VOCABULARY, RANK, ALPHA = 4, 4, 30, 3, 12.0
WORDS = {"<pad>": 0, "<end>": 1, **{f"w{place}": place for place in range(2, VOCABULARY)}}


@pytest.fixture(scope="module")
def base():
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config).eval()


@pytest.fixture(scope="module")
def stack(base):
    made = AdapterStack.attach(copy.deepcopy(base), ["idle", "agent"], Lora(RANK, ALPHA, dropout=0.0))
    for parameter in made.parameters().values():
        torch.nn.init.normal_(parameter, std=0.1)
    return made


@pytest.fixture(scope="module")
def rollouts():
    """Per prompt: its tokens, the completions' tokens and rewards, and the generators' accuracy."""
    drawn = random.Random(0)
    made = []
    for _ in range(PROMPTS):
        prompt = [drawn.randrange(2, VOCABULARY) for _ in range(drawn.randint(2, 6))]
        lengths = [drawn.randint(1, 12) for _ in range(GROUP)]
        completions = [[drawn.randrange(2, VOCABULARY) for _ in range(length)] for length in lengths]
        completions[0][-1] = 1  # some end by themselves
        rewards = [drawn.choice([0.0, 1.5, 2.0, 2.5]) + 0.1 * place for place in range(GROUP)]
        made.append((prompt, completions, rewards, drawn.choice([0.0, 1 / 3, 2 / 3])))
    return made


def of_trl(base, adapter, rollouts, folder, *, advantages=None, loss_type="grpo", temperature=0.7):
    """One step of TRL's trainer: its loss and the adapter's gradients."""
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    tokenizer = Tokenizer(WordLevel(WORDS, unk_token="<pad>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")
    names = {place: word for word, place in WORDS.items()}
    of_prompt = {tuple(prompt): (completions, rewards) for prompt, completions, rewards, _ in rollouts}
    credited = {
        tuple(prompt): own for (prompt, *_), own in zip(rollouts, advantages or [], strict=advantages is not None)
    }

    class GivenCompletions(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *arguments, **options):
            asked = [tuple(ids) for ids in prompt_ids]
            return [of_prompt[ids][0][place % GROUP] for place, ids in enumerate(asked)], None

        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            if credited:
                prompts = [tuple(tokenizer(str(row["prompt"]))["input_ids"]) for row in inputs]
                own = [credited[ids][place % GROUP] for place, ids in enumerate(prompts)]
                output["advantages"] = torch.tensor(own, dtype=torch.float32)
            return output

    def reward(prompts, completion_ids, **_):
        asked = [tuple(tokenizer(prompt)["input_ids"]) for prompt in prompts]
        assert [of_prompt[ids][0][place % GROUP] for place, ids in enumerate(asked)] == completion_ids
        return [of_prompt[ids][1][place % GROUP] for place, ids in enumerate(asked)]

    class KeepGradients(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **_):
            assert model is not None
            kept.update({name: own.grad.clone() for name, own in model.named_parameters() if own.grad is not None})

    kept = {}
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", lora_dropout=0.0)
    model = peft.get_peft_model(copy.deepcopy(base), config)
    arguments = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=PROMPTS * GROUP,
        gradient_accumulation_steps=1,
        num_generations=GROUP,
        max_completion_length=16,
        temperature=temperature,
        beta=0.04,
        epsilon=0.2,
        use_bias_correction_kl=False,  # TRL's default multiplies k3 by the ratio (DeepSeek-V3.2); GRPO and T1 do not
        loss_type=loss_type,
        scale_rewards="group",
        max_grad_norm=0.0,
        max_steps=1,
        logging_steps=1,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GivenCompletions(
        model=model,
        args=arguments,
        reward_funcs=reward,
        train_dataset=datasets.Dataset.from_list([{"prompt": " ".join(names[i] for i in row[0])} for row in rollouts]),
        processing_class=tokenizer,
        callbacks=[KeepGradients()],
    )
    parameters = dict(model.named_parameters())
    for name, value in adapter.items():  # after the trainer, which draws a new adapter's values itself
        parameters["base_model.model." + name.replace(".weight", ".default.weight")].data.copy_(value)
    trainer.train()
    (loss,) = (entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    return loss, kept


def of_ours(stack, rollouts, advantages, *, loss_aggregation: LossAggregation = "sequence", temperature=0.7):
    """The learner's loss and the agent's gradients, named as PEFT names them; the adapters are not changed."""
    settings = TrainingSettings(
        kl_coefficient=0.04,
        clip_range=0.2,
        max_gradient_norm=None,
        loss_aggregation=loss_aggregation,
        max_new_tokens=16,
        temperature=temperature,
    )
    learner = Learner(stack, settings, total_steps=10)
    kept = {}

    def keep(*, learning_rate, active_K):
        sizes = [parameter[0].numel() for parameter in stack.parameters().values()]
        assert learner.optimizer._gradient_KP is not None
        parts = learner.optimizer._gradient_KP.split(sizes, dim=1)
        for (name, parameter), part in zip(stack.parameters().items(), parts, strict=True):
            path, kind = name.rsplit(".", 1)
            own = part.view_as(parameter)[stack.index("agent")]
            kind, own = ("lora_A", own) if kind == "A_KRI" else ("lora_B", own.T)
            kept[f"base_model.model.{path}.{kind}.default.weight"] = own

    learner.optimizer.step = keep
    completions = [
        CreditedCompletion("agent", tuple(prompt), tuple(completion), None, float(advantage))
        for (prompt, group, *_), credited in zip(rollouts, advantages, strict=True)
        for completion, advantage in zip(group, credited, strict=True)
    ]
    report = learner.update(completions, step=0)
    return report.agents["agent"].loss, kept


def assert_same(ours, theirs):
    (our_loss, our_gradients), (their_loss, their_gradients) = ours, theirs
    assert our_loss == pytest.approx(their_loss, rel=1e-4, abs=1e-6)
    assert our_gradients.keys() == their_gradients.keys()
    assert len(our_gradients) == 28  # A and B of seven projections of two blocks
    for name, expected in their_gradients.items():
        torch.testing.assert_close(our_gradients[name], expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
        assert expected.abs().max() > 0


@pytest.mark.parametrize(
    ("loss_type", "loss_aggregation"), [("grpo", "sequence"), ("dapo", "token"), ("dr_grpo", "budget")]
)
def test_group_relative_advantages(base, stack, rollouts, tmp_path, loss_type, loss_aggregation):
    rewards = [rewards for _, _, rewards, _ in rollouts]
    advantages = group_relative(rewards, Baseline(deviation="sample", epsilon=1e-4)).tolist()
    theirs = of_trl(base, stack.tensors("agent"), rollouts, tmp_path, loss_type=loss_type)
    assert_same(of_ours(stack, rollouts, advantages, loss_aggregation=loss_aggregation), theirs)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_counterfactual_advantages(base, stack, rollouts, tmp_path, temperature):
    rewards, accuracy = [one[2] for one in rollouts], [one[3] for one in rollouts]
    advantages = counterfactual(rewards, Baseline(accuracy)).tolist()
    adapter = stack.tensors("agent")
    theirs = of_trl(base, adapter, rollouts, tmp_path, advantages=advantages, temperature=temperature)
    assert_same(of_ours(stack, rollouts, advantages, temperature=temperature), theirs)
