"""Times and memory against numbers worked out by hand, and the rates against the page they are from."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mada.pipeline.advice import advice
from mada.pipeline.calls import Calls
from mada.pipeline.estimates import (
    Setting,
    learning_seconds,
    memory_of,
    micro_batch_of,
    paged_rows,
    sampling_seconds,
    seconds_of,
)
from mada.pipeline.machine import H200_BYTES, Machine
from mada.pipeline.quantities import in_bytes, in_millions
from mada.pipeline.throughput import CPU, GIB, H200, Shape
from mada.recipe import load_recipe
from mada.recipe.training import TrainingSettings

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "performance.md").read_text()
ON_H200 = Machine("one H200", True, H200_BYTES, H200)
MEASURED = Setting(ON_H200, H200.shape, 1152, base_bytes=0, training_bytes=0, wanted_rows=512)
ROLLOUTS = Calls(48, 512, at_once=48, share_prompt=8, learnt=True)
SETTINGS = TrainingSettings(batch_size=16, group_size=4)


def table_row(start: str) -> list[str]:
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("rows", [16, 48, 192, 512])
def test_sampling_rates_are_those_of_the_page(rows):
    assert table_row(f"{rows} | fixed")[2] == f"{H200.fixed[rows]:,}"
    assert table_row(f"{rows} | ragged")[2] == f"{H200.ragged[rows]:,}"


def test_learning_rates_and_memory_are_those_of_the_page():
    learn = table_row("mada, three agents in one batch")
    again = table_row("mada, activations recomputed")
    whole = table_row("mada, whole update with reference, canary and AdamW")
    assert learn[1:3] == [f"{1 / H200.learning:,.0f}", "48 GiB"]
    assert again[1:3] == [f"{1 / H200.recomputing:,.0f}", "7 GiB"]
    assert whole[1] == f"{1 / (H200.learning + H200.forward):,.0f}"
    held = 2 * H200.shape.parameters + 16 * 3 * 18_464_768
    assert (16_384 * H200.activation_bytes + held) / GIB == pytest.approx(48)
    assert (16_384 * H200.recomputed_bytes + held) / GIB == pytest.approx(7)


def test_the_cpus_rates_are_those_of_the_page():
    assert table_row("sampling, three adapters mixed, groups of 8 (tokens/s)")[1] == f"{CPU.fixed[48]:,}"
    assert table_row("sampling, ragged, 8 to 256 tokens (tokens/s)")[1] == f"{CPU.ragged[48]:,}"
    step = float(table_row("one GRPO step of three agents (s)")[1])
    tokens = 48 * 128
    assert "46 % is the rollout, 11 % the reference, 42 % learning" in PAGE
    assert tokens * CPU.forward == pytest.approx(0.11 * step)
    assert tokens * CPU.learning == pytest.approx(0.42 * step)
    grown = float(table_row("growth of peak memory in that (MiB)")[1])
    assert tokens * CPU.activation_bytes == pytest.approx(grown * 2**20)


@pytest.mark.parametrize(("workload", "completions"), [("paper", 48), ("run", 384)])
def test_the_measured_step_of_a_team_is_found_again(workload, completions):
    """Completions of 512 tokens, prompts of 128; the estimate knows no differences between sizes of micro-batches."""
    rollout, reference, learning = map(float, table_row(f"{workload} | local")[3:6])
    calls = replace(ROLLOUTS, completions=completions, at_once=completions)
    assert sampling_seconds(calls, MEASURED, share=1.0) == pytest.approx(rollout, rel=0.1)
    assert learning_seconds(calls, MEASURED, SETTINGS, share=1.0) == pytest.approx(reference + learning, rel=0.12)


def test_long_prompts_are_learnt_from_once():
    """Groups of 8 with prompts of 128 + 3 × 512 tokens: 512 + 1664 / 8 tokens a completion instead of 512 + 1664."""
    critics = replace(ROLLOUTS, responses=3, most_response=512)
    setting = replace(MEASURED, window=4096)

    def seconds(calls: Calls, settings: TrainingSettings = SETTINGS) -> float:
        return learning_seconds(calls, setting, settings, share=1.0)

    alone = replace(critics, share_prompt=1)
    assert setting.prompt(critics, 1.0) == 128 + 1536
    assert seconds(critics) == pytest.approx(seconds(alone) * (512 + 1664 / 8) / (512 + 1664))
    again = SETTINGS.model_copy(update={"gradient_checkpointing": True})
    assert seconds(critics, again) == pytest.approx(seconds(alone, again))
    assert seconds(replace(alone, share_prompt=2, responses=0)) == pytest.approx(seconds(replace(alone, responses=0)))


def test_activations_scale_from_one_measurement_to_the_other():
    scaled = H200.activation_bytes * CPU.shape.activations / H200.shape.activations
    assert scaled == pytest.approx(CPU.activation_bytes, rel=0.01)


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (1, 16 / 5_678),  # few rows cost what 16 cost
        (16, 16 / 5_678),
        (48, 48 / 15_244),
        (120, (48 / 15_244 + 192 / 44_816) / 2),  # halfway
        (512, 512 / 69_909),
        (672, 512 / 69_909 + (512 / 69_909 - 192 / 44_816) / 2),  # on by the last slope
    ],
)
def test_a_step_between_measured_numbers_of_rows(rows, step):
    assert H200.step_seconds(rows, spread=False) == pytest.approx(step)


def test_a_step_on_a_cpu_costs_in_proportion_to_its_rows():
    assert [CPU.step_seconds(rows, spread=True) for rows in (12, 48)] == pytest.approx([12 / 3_189, 48 / 3_189])


def test_longer_rows_read_more_of_the_cache():
    """48 rows that are 1,128 places longer read so many bytes more at each step, at the measured rate."""
    long = replace(MEASURED, window=4096, wanted_rows=48)
    calls = Calls(48, 2768, at_once=48)  # 128 + 2,768 / 2 is 1,128 more than 384
    assert H200.cache_bytes_per_second is not None
    more = 48 * 1128 * H200.shape.cache_bytes / H200.cache_bytes_per_second
    expected = 2768 * (48 / 15_244 + more)
    assert sampling_seconds(calls, long, share=1.0) == pytest.approx(expected)
    assert H200.cache_bytes_per_second == pytest.approx(3.2e12, rel=0.01)  # two thirds of 4.8 TB/s


def test_long_prompts_are_read_once_for_those_who_share_them():
    apart = Calls(96, 8, at_once=48, responses=2, most_response=1000)
    shared = replace(apart, share_prompt=4)
    wide = replace(MEASURED, window=4096)
    difference = sampling_seconds(apart, wide, share=1.0) - sampling_seconds(shared, wide, share=1.0)
    slower = H200.shape.products(2128) / H200.shape.products(1024)
    assert difference == pytest.approx((96 - 24) * 2000 * H200.forward * slower)


def test_other_models_are_scaled_by_parameters_or_layers():
    half = H200.shape.parameters // 2
    assert H200.slower(replace(H200.shape, parameters=4 * half)) == pytest.approx(2.0)
    assert H200.slower(replace(H200.shape, parameters=half)) == 1.0, "as many layers, as many kernels"
    assert H200.slower(replace(H200.shape, parameters=half, layers=14)) == pytest.approx(0.5)
    twice = Setting(
        ON_H200, replace(H200.shape, parameters=2 * H200.shape.parameters, layers=56), 1152, 0, 0, wanted_rows=512
    )
    one, two = (learning_seconds(ROLLOUTS, setting, SETTINGS, share=1.0) for setting in (MEASURED, twice))
    assert two == pytest.approx(2 * one)


def test_learning_counts_what_the_settings_ask_for():
    tokens = 48 * (128 + 512) * H200.shape.products(640) / H200.shape.products(1024)

    def seconds(**changes):
        return learning_seconds(ROLLOUTS, MEASURED, SETTINGS.model_copy(update=changes), share=1.0)

    assert seconds(kl_coefficient=0.0) == pytest.approx(tokens / 44_540)
    assert seconds() == pytest.approx(tokens / 32_811)
    assert seconds(kl_coefficient=0.0, gradient_checkpointing=True) == pytest.approx(tokens / 26_952)
    assert seconds(kl_coefficient=0.0, updates_per_rollout=3) == pytest.approx(3 * tokens / 44_540)
    sampled = sampling_seconds(ROLLOUTS, MEASURED, share=1.0)
    assert seconds_of([ROLLOUTS], MEASURED, SETTINGS, share=1.0) == pytest.approx(sampled + seconds())
    unlearnt = replace(ROLLOUTS, learnt=False)
    assert seconds_of([unlearnt, unlearnt], MEASURED, SETTINGS, share=1.0) == pytest.approx(2 * sampled)


def test_a_prompt_ends_at_the_window_and_may_leave_thinking_out():
    critic = Calls(1, 100, at_once=1, responses=3, most_response=400)
    assert critic.prompt(0.25, question=64, window=2000) == 64 + 300
    assert critic.prompt(1.0, question=64, window=2000) == 64 + 1200
    assert critic.prompt(1.0, question=64, window=512) == 412
    brief = replace(critic, whole_responses=False)
    assert (brief.prompt(0.25, question=64, window=2000), brief.prompt(1.0, question=64, window=2000)) == (64, 1264)


def test_a_micro_batch_is_its_limit_or_its_longest_sequence_or_all_there_is():
    wide = replace(MEASURED, window=65_536)

    def tokens(calls, settings=SETTINGS):
        return micro_batch_of(calls, wide, settings, share=1.0).tokens

    assert tokens(ROLLOUTS) == 16_384
    assert tokens(ROLLOUTS, SETTINGS.model_copy(update={"micro_batch_tokens": 2048})) == 2048
    assert tokens(replace(ROLLOUTS, most=30_000)) == 30_128
    assert tokens(replace(ROLLOUTS, at_once=4)) == 4 * 640
    memory = memory_of(wide, [(ROLLOUTS, SETTINGS), (replace(ROLLOUTS, most=30_000), SETTINGS)])
    assert [one.tokens for one in memory.micro_batches] == [16_384, 30_128]
    assert memory_of(wide, [(ROLLOUTS, SETTINGS)]).row == 1024 + 512
    row = 1024 + 30_000  # no more than the longest question and reply of the training that takes most
    rows = int(0.4 * H200_BYTES) // (row * 28_672)
    assert (memory.rows, memory.row, memory.cache_bytes) == (rows, row, rows * row * 28_672)
    assert memory.together[1] == memory.cache_bytes + round(30_128 * H200.activation_bytes)


def test_pages_hold_rows_of_their_own_length():
    assert paged_rows(ROLLOUTS, MEASURED) == int(int(0.4 * H200_BYTES) / ((128 + 128) * 28_672))


def test_the_machine_is_a_gpu_if_there_is_one(monkeypatch):
    assert Machine.for_model(2_000_000).throughput is CPU
    assert Machine.for_model(1_000_000_000) == Machine("one H200 (no GPU is here)", True, H200_BYTES, H200)
    properties = type("Properties", (), {"total_memory": 80 * GIB})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
    other = Machine.for_model(2_000_000)
    assert (other.words, other.memory) == ("the NVIDIA A100 here, times as if it were an H200", 80 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert Machine.for_model(2_000_000).words == "the NVIDIA H200 here"


def advised(setting, rollouts, settings=SETTINGS):
    recipe = load_recipe(None, overrides=["inference.max_new_tokens=512"])
    memory = memory_of(setting, [(rollouts, settings)])
    return list(advice(recipe, setting, memory, rollouts=[rollouts], settings=settings))


def test_advice_is_silent_when_all_is_well():
    assert advised(MEASURED, ROLLOUTS) == []


def test_advice_about_a_micro_batch_that_is_too_large():
    small = replace(MEASURED, machine=replace(ON_H200, memory=40 * GIB))
    [said] = advised(small, ROLLOUTS)
    held = small.rows(ROLLOUTS) * small.slot(ROLLOUTS)
    fits = int((40 * GIB - held) / H200.activation_bytes)
    assert said.startswith("Training does not fit: a micro-batch of 12,288 tokens takes 35.7 GB beside ")
    assert f"training.micro_batch_tokens = {fits} would fit" in said
    assert advised(small, ROLLOUTS, SETTINGS.model_copy(update={"micro_batch_tokens": fits})) == []


def test_advice_about_a_single_sequence_that_is_too_long():
    wide = replace(MEASURED, window=65_536, wanted_rows=4)
    long = replace(ROLLOUTS, most=60_000, at_once=4)
    [said] = advised(wide, long)
    alone = 60_128 * H200.activation_bytes
    rest = in_bytes(4 * 61_024 * 28_672)
    assert said.startswith(
        f"Training may not fit: one sequence of 60,128 tokens takes {in_bytes(alone)} beside {rest} of the rest"
    )
    window = int((H200_BYTES - 4 * wide.slot(long)) / H200.activation_bytes) // 1024 * 1024
    assert "makes learning 1.7 times as long; without it the learner turns to it when memory runs out." in said
    assert f"Or: model.window = {window} would fit; debates are shortened" in said
    assert advised(wide, long, SETTINGS.model_copy(update={"gradient_checkpointing": True})) == []


def test_advice_about_a_base_or_a_row_that_does_not_fit():
    [said] = advised(replace(MEASURED, base_bytes=200 * GIB), ROLLOUTS)
    assert said == "The base alone takes 215 GB, and there are 149 GB: use a smaller model.name or a larger device."
    huge = replace(MEASURED, window=4_000_000)
    said = advised(huge, replace(ROLLOUTS, most=3_000_000))[0]
    assert said.startswith(
        "Not one row fits, so nothing could be sampled, and a step of the generators' training wants 48 at once: each "
        "has room for the longest prompt and reply, 3,001,024 tokens."
    )


def test_rows_have_room_for_what_their_stage_needs():
    critic = Calls(48, 512, at_once=48, responses=3, most_response=400)
    wide = replace(MEASURED, window=65_536)
    assert [wide.row(calls) for calls in (ROLLOUTS, critic, replace(ROLLOUTS, whole_window=True))] == [
        *(1024 + 512, 1024 + 3 * 400 + 512, 65_536)
    ]
    assert wide.rows(replace(ROLLOUTS, whole_window=True)) == int(0.4 * H200_BYTES) // (65_536 * 28_672) < 512
    assert wide.rows(replace(ROLLOUTS, whole_window=True, alone=True)) == int(0.7 * H200_BYTES) // (65_536 * 28_672)
    assert wide.rows(ROLLOUTS) == 512
    assert replace(wide, window=1000).row(critic) == 1000, "prompts are shortened to the window"


def test_quantities_have_the_digits_that_count():
    assert [in_millions(count) for count in (999_999, 1_600_000, 903_168_000)] == [
        "999,999",
        "1.6 million",
        "900 million",
    ]
    assert [in_bytes(count) for count in (999, 3_554_176_000, 5e15)] == ["999 bytes", "3.55 GB", "5e+03 TB"]


def test_the_measured_shapes_are_those_of_the_benchmarks():
    assert H200.shape.cache_bytes == 28_672
    assert CPU.shape == Shape(2_363_008, layers=5, hidden=192, inner=512, cache_bytes=2560, width=4)
