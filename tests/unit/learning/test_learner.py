import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from mada.errors import AdapterError, LearningError
from mada.learning import passes
from mada.learning.batches import MicroBatch, micro_batches
from mada.learning.learner import Learner
from mada.learning.loss import completion_log_probs

AGENTS = ("a", "b", "c")


def gradients(learner, completions, step=0):
    """The gradients that an update would use, before clipping, by parameter name; nothing is changed."""
    taken = {}

    def keep(*, learning_rate, active_K):
        sizes = [parameter[0].numel() for parameter in learner.stack.parameters().values()]
        parts = learner.optimizer._gradient_KP.split(sizes, dim=1)
        taken.update(zip(learner.stack.parameters(), parts, strict=True))

    own = learner.optimizer.step
    learner.optimizer.step = keep
    learner.update(completions, step=step)
    learner.optimizer.step = own
    learner.optimizer.drop_gradients()
    return taken


def adapters(stack):
    return {name: parameter.detach().clone() for name, parameter in stack.parameters().items()}


def snapshot(learner):
    state = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    return {**adapters(learner.stack), **state}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def assert_close(one, other, relative=1e-5):
    """Equal up to float32 rounding, measured against each tensor's size."""
    assert one.keys() == other.keys()
    for name in one:
        size = max(float(other[name].norm()), 1e-7)
        assert float((one[name] - other[name]).norm()) <= relative * size, name


def log_probs(stack, completions, temperature=0.7):
    """Each completion's token log-probabilities, one at a time, without dropout."""
    found = []
    with torch.no_grad():
        for completion in completions:
            with stack.routed([completion.agent]):
                batch = MicroBatch((completion,), (0,))
                found.append(completion_log_probs(stack.model, batch, temperature=temperature).log_probs_T)
    return found


def as_sampled(stack, completions):
    """The completions with the log-probabilities an exact engine would have given."""
    pairs = zip(completions, log_probs(stack, completions), strict=True)
    return [replace(completion, engine_log_probs=tuple(found.tolist())) for completion, found in pairs]


def test_micro_batches_change_nothing(make_stack, make_completions, settings):
    """One pass of everything equals one completion at a time, whatever the aggregation."""
    completions = make_completions("a", each=8)
    for aggregation in ("sequence", "token", "budget"):
        chosen = settings.model_copy(update={"loss_aggregation": aggregation})
        found, reports = [], []
        for tokens in (10_000, 40, 1):
            learner = Learner(make_stack("a"), chosen.model_copy(update={"micro_batch_tokens": tokens}), total_steps=1)
            found.append(gradients(learner, completions))
            reports.append(learner.update(completions, step=0))
        assert [report.micro_batches for report in reports][::2] == [1, 8]
        assert_close(found[1], found[0])
        assert_close(found[2], found[0])
        for report in reports[1:]:
            assert report.agents["a"].loss == pytest.approx(reports[0].agents["a"].loss, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("micro_batch_tokens", [10_000, 50])
def test_agents_learn_together_what_they_learn_alone(make_stack, make_completions, settings, micro_batch_tokens):
    """Gradients agree to rounding; `test_together_equals_apart` looks at complete trainings."""
    settings = settings.model_copy(update={"micro_batch_tokens": micro_batch_tokens})
    together = Learner(make_stack(*AGENTS), settings, total_steps=20)
    alone = {agent: Learner(make_stack(agent), settings, total_steps=20) for agent in AGENTS}
    # Unequal numbers, so that rows are routed by gate; and the orders differ.
    counts = {"a": 3, "b": 5, "c": 4}
    own = {agent: make_completions(agent, each=counts[agent]) for agent in AGENTS}
    found = gradients(together, [one for agent in ("c", "a", "b") for one in own[agent]])
    for place, agent in enumerate(AGENTS):
        expected = {name: gradient[0] for name, gradient in gradients(alone[agent], own[agent]).items()}
        assert_close({name: gradient[place] for name, gradient in found.items()}, expected)


def test_credited_tokens_become_likelier_and_discredited_ones_less_likely(make_stack, make_completions, settings):
    stack = make_stack("a", "b")
    better, worse = make_completions("a", each=2)
    completions = [replace(better, advantage=1.0), replace(worse, advantage=-1.0)]
    before = log_probs(stack, completions)
    learner = Learner(stack, settings.model_copy(update={"kl_coefficient": 0.0, "learning_rate": 1e-3}), total_steps=1)
    learner.update(completions, step=0)
    after = log_probs(stack, completions)
    assert after[0].mean() > before[0].mean()
    assert after[1].mean() < before[1].mean()


def test_an_agent_without_lessons_stays_untouched(make_stack, make_completions, settings):
    learner = Learner(make_stack(*AGENTS), settings.model_copy(update={"weight_decay": 0.1}), total_steps=2)
    learner.update(make_completions(*AGENTS), step=0)
    before = snapshot(learner)
    skipped = [replace(one, learn=False) for one in make_completions("b", seed=1)]
    report = learner.update([*make_completions("a", seed=1), *skipped], step=1)
    after = snapshot(learner)
    for name in learner.stack.parameters():
        assert torch.equal(before[name][1:], after[name][1:])
        assert not torch.equal(before[name][0], after[name][0])
    for name in ("m_KP", "v_KP", "counts_K"):
        assert torch.equal(before[name][1:], after[name][1:])
    assert list(report.agents) == ["a", "b"]
    idle = report.agents["b"]
    assert idle.tokens_learnt == 0
    assert (idle.loss, idle.gradient_norm, idle.kl, idle.entropy, idle.canary) == (0.0, 0.0, None, None, None)


@pytest.mark.parametrize("completions", [0, 4])
def test_with_nothing_to_learn_nothing_happens(make_stack, make_completions, settings, completions):
    learner = Learner(make_stack("a"), settings, total_steps=2)
    before = snapshot(learner)
    skipped = [replace(one, learn=False) for one in make_completions("a", each=completions)]
    report = learner.update(skipped, step=1)
    assert same(before, snapshot(learner))
    assert report.micro_batches == 0


@pytest.mark.parametrize(("aggregation", "share"), [("sequence", 1 / 3), ("budget", 1 / 3), ("token", None)])
def test_skipped_completions_keep_their_part_in_the_scale(make_stack, make_completions, settings, aggregation, share):
    settings = settings.model_copy(update={"loss_aggregation": aggregation})
    first, *others = make_completions("a", each=3)
    learner = Learner(make_stack("a"), settings, total_steps=1)
    alone = gradients(learner, [first])
    among = gradients(learner, [first, *(replace(other, learn=False) for other in others)])
    lengths = [len(one.completion_ids) for one in (first, *others)]
    share = share or lengths[0] / sum(lengths)
    assert_close(among, {name: share * gradient for name, gradient in alone.items()})


def test_checkpointing_changes_nothing(make_stack, make_completions, settings):
    completions = make_completions(*AGENTS)
    found, forwards = [], []
    for checkpointing in (False, True):
        chosen = settings.model_copy(update={"gradient_checkpointing": checkpointing})
        learner = Learner(make_stack(*AGENTS, dropout=0.3), chosen, total_steps=1)
        times: list[bool] = []
        next(iter(learner.stack.layers.values())).register_forward_hook(lambda *_, times=times: times.append(True))
        found.append(gradients(learner, completions))
        forwards.append(len(times))
        assert not any(module.training for module in learner.stack.model.modules())
    assert_close(found[1], found[0])
    assert forwards == [2, 3]  # reference and forward; with checkpointing once more in the backward pass


def test_later_updates_start_from_the_first_ones_policy(make_stack, make_completions, settings):
    """Two updates in one call equal two passes by hand, the second held to the log-probs before the first."""
    completions = make_completions("a", "b")
    settings = settings.model_copy(update={"updates_per_rollout": 2, "max_gradient_norm": None})
    learner = Learner(make_stack("a", "b"), settings, total_steps=1)
    report = learner.update(completions, step=0)

    other = Learner(make_stack("a", "b"), settings, total_steps=1)
    batches = micro_batches(completions, agents=["a", "b"], max_tokens=10_000)
    bare = {"temperature": 0.7, "route": lambda _: other.stack.disabled()}
    reference = passes.forward_pass(other.stack, batches, **bare)
    old = log_probs(other.stack, completions)
    weights = [1 / (4 * len(one.completion_ids)) for one in completions]
    lessons = [passes.Example(*one) for one in zip(completions, weights, reference, old, strict=True)]
    for _ in range(2):
        passes.learning_pass(
            other.stack, lessons, batches, settings=settings, optimizer=other.optimizer, seed_of=lambda number: 0
        )
        other.optimizer.step(learning_rate=settings.learning_rate, active_K=[True, True])
    start = adapters(make_stack("a", "b"))
    ways = [{name: end[name] - start[name] for name in start} for end in map(adapters, (learner.stack, other.stack))]
    assert_close(*ways, relative=1e-3)
    assert report.micro_batches == 2
    assert learner.state_dict()["counts_K"].tolist() == [2, 2]


def test_the_ratio_is_clipped_from_the_second_update_on(make_stack, make_completions, settings):
    completions = make_completions("a")
    once = Learner(make_stack("a"), settings, total_steps=1).update(completions, step=0)
    assert once.agents["a"].clip_share == 0
    assert once.agents["a"].policy_loss == pytest.approx(-np.mean([one.advantage for one in completions]), abs=1e-5)
    often = settings.model_copy(update={"updates_per_rollout": 4, "clip_range": 0.01})
    report = Learner(make_stack("a"), often, total_steps=1).update(completions, step=0)
    clip_share = report.agents["a"].clip_share
    assert clip_share is not None
    assert 0.3 < clip_share <= 0.75  # never in the first of four


def test_without_kl_there_is_no_reference_pass(make_stack, make_completions, settings, monkeypatch):
    monkeypatch.setattr("mada.learning.learner.forward_pass", None)
    learner = Learner(make_stack("a"), settings.model_copy(update={"kl_coefficient": 0.0}), total_steps=1)
    report = learner.update(make_completions("a"), step=0)
    assert report.agents["a"].kl is None
    assert report.agents["a"].loss == report.agents["a"].policy_loss


def test_the_report_of_an_update(make_stack, make_completions, settings):
    stack = make_stack("a", "b")
    completions = as_sampled(stack, make_completions("a", "b"))
    settings = settings.model_copy(update={"schedule": "linear", "warmup_ratio": 0.5})
    learner = Learner(stack, settings, total_steps=4)
    expected = {agent: [one for one in completions if one.agent == agent] for agent in ("a", "b")}
    norms = gradients(learner, completions, step=1)
    report = learner.update(completions, step=1)
    assert (report.micro_batches, report.out_of_memory) == (1, 0)
    assert report.seconds.keys() == {"reference", "learning", "optimizer"}
    assert all(value > 0 for value in report.seconds.values())
    for place, agent in enumerate(("a", "b")):
        own = report.agents[agent]
        assert own.learning_rate == settings.learning_rate / 2
        assert own.tokens_learnt == sum(len(one.completion_ids) for one in expected[agent])
        assert own.loss == pytest.approx(
            own.policy_loss + 0.04 * _sequence_kl(stack, expected[agent], make_stack), 1e-3
        )
        norm = sum(float(gradient[place].square().sum()) for gradient in norms.values()) ** 0.5
        assert own.gradient_norm == pytest.approx(norm, rel=1e-5)
        assert own.entropy is not None
        assert 0 < own.entropy < np.log(40)
        assert own.canary is not None
        assert own.canary.mean <= own.canary.largest < 1e-5
        assert own.canary.ratio == pytest.approx(1, abs=1e-5)


def _sequence_kl(stack, completions, make_stack):
    """Mean over completions of the mean of k3 over tokens, from adapters as they were before the update."""
    fresh = make_stack("a", "b")
    own = log_probs(fresh, completions)
    with torch.no_grad():
        bare = [
            completion_log_probs(fresh.model, MicroBatch((one,), (0,)), temperature=0.7).log_probs_T
            for one in completions
        ]
    terms = [(base - mine).exp() - (base - mine) - 1 for mine, base in zip(own, bare, strict=True)]
    return float(np.mean([float(term.mean()) for term in terms]))


def test_dropout_does_not_disturb_the_canary(make_stack, make_completions, settings):
    stack = make_stack("a", "b", dropout=0.5)
    completions = make_completions("a", "b")
    sampled = as_sampled(stack, completions)
    report = Learner(stack, settings, total_steps=3).update(sampled, step=1)
    for agent in ("a", "b"):
        canary = report.agents[agent].canary
        assert canary is not None
        assert canary.largest < 1e-5


def test_a_canary_beyond_tolerance_stops_training_before_anything_changes(make_stack, make_completions, settings):
    stack = make_stack("a", "b")
    completions = as_sampled(stack, make_completions("a", "b"))
    learner = Learner(stack, settings, total_steps=3)
    learner.update(make_completions("a", "b", seed=1), step=0)
    completions = as_sampled(stack, completions)
    before = snapshot(learner)
    strange = [
        replace(one, engine_log_probs=tuple(value - 0.3 for value in one.engine_log_probs)) if one.agent == "b" else one
        for one in completions
    ]
    with pytest.raises(
        LearningError, match=r"b, step 2: .* by 0\.3 nats per token, more than .*canary_tolerance = 0\.1"
    ):
        learner.update(strange, step=1)
    assert same(before, snapshot(learner))
    assert all(parameter.grad is None for parameter in stack.parameters().values())
    report = Learner(stack, settings.model_copy(update={"canary_tolerance": 0.5}), total_steps=3).update(
        strange, step=1
    )
    canary = report.agents["b"].canary
    assert canary is not None
    assert (canary.mean, canary.largest, canary.ratio) == pytest.approx((0.3, 0.3, np.exp(0.3)), rel=1e-3)


@pytest.mark.parametrize(("advantage", "what"), [(float("nan"), "loss is nan"), (1e38, "gradient norm is inf")])
def test_numbers_that_are_none_stop_training_before_anything_changes(
    make_stack, make_completions, settings, advantage, what
):
    learner = Learner(make_stack("a", "b"), settings, total_steps=3)
    learner.update(make_completions("a", "b", seed=1), step=0)
    before = snapshot(learner)
    completions = [replace(one, advantage=advantage) if one.agent == "b" else one for one in make_completions("a", "b")]
    with pytest.raises(LearningError, match=f"b, step 2: the {what}"):
        learner.update(completions, step=1)
    assert same(before, snapshot(learner))
    learner.update(make_completions("a", "b"), step=1)  # and nothing of it is left in the next update
    other = Learner(make_stack("a", "b"), settings, total_steps=3)
    other.update(make_completions("a", "b", seed=1), step=0)
    other.update(make_completions("a", "b"), step=1)
    assert same(snapshot(learner), snapshot(other))


class Memory:
    """A device with room for so many tokens at a time: stands in for the function that runs a micro-batch."""

    def __init__(self, tokens, error):
        self.tokens, self.error = tokens, error

    def __call__(self, model, batch, **how):
        if batch.size > self.tokens:
            raise self.error
        return completion_log_probs(model, batch, **how)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes"),
        MemoryError(),
    ],
)
def test_out_of_memory_goes_on_in_smaller_micro_batches(
    make_stack, make_completions, settings, monkeypatch, caplog, error
):
    """The update is the one that small micro-batches would have made from the start, dropout included."""
    completions = make_completions("a", "b", each=8)
    total = 16 * max(one.length for one in completions)
    small = Learner(
        make_stack("a", "b", dropout=0.2),
        settings.model_copy(update={"micro_batch_tokens": total // 4}),
        total_steps=2,
    )
    expected = small.update(completions, step=0)

    learner = Learner(make_stack("a", "b", dropout=0.2), settings, total_steps=2)
    monkeypatch.setattr(passes, "completion_log_probs", Memory(total // 3, error))
    with caplog.at_level(logging.WARNING, logger="mada.learning.learner"):
        report = learner.update(completions, step=0)
    assert report.out_of_memory == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "training.micro_batch_tokens" in caplog.text
    assert learner.micro_batch_tokens == total // 4
    assert report.micro_batches == expected.micro_batches
    assert same(snapshot(learner), snapshot(small))
    assert learner.update(completions, step=1).out_of_memory == 0


def test_out_of_memory_in_the_backward_pass_starts_the_sum_again(make_stack, make_completions, settings, monkeypatch):
    """Gradients of the micro-batches that still fitted are not counted twice."""
    completions = make_completions("a", "b", each=8)
    learner = Learner(make_stack("a", "b"), settings.model_copy(update={"micro_batch_tokens": 60}), total_steps=1)
    learn, calls = passes._learn, []

    def run_out_once(*arguments):
        found = learn(*arguments)
        calls.append(True)
        if len(calls) == 3:
            raise torch.OutOfMemoryError
        return found

    monkeypatch.setattr(passes, "_learn", run_out_once)
    found = gradients(learner, completions)
    other = Learner(make_stack("a", "b"), settings, total_steps=1)
    assert_close(found, gradients(other, completions))


class MemoryForActivations(Memory):
    """Room for so many tokens with all their activations, and for any number without them."""

    def __init__(self, tokens, error, stack):
        super().__init__(tokens, error)
        self.stack, self.refused = stack, []

    def __call__(self, model, batch, **how):
        if self.stack.recomputes:
            return completion_log_probs(model, batch, **how)
        if batch.size > self.tokens:
            self.refused.append(batch)
        return super().__call__(model, batch, **how)


def test_a_single_sequence_that_does_not_fit_has_its_activations_recomputed(
    make_stack, make_completions, settings, monkeypatch, caplog
):
    """At once, when halving is of no use to it; the update is the one with checkpointing from the start."""
    completions = make_completions("a", "b", each=8)
    longest = max(one.length for one in completions)
    settings = settings.model_copy(update={"micro_batch_tokens": longest})
    checkpointed = settings.model_copy(update={"gradient_checkpointing": True})
    careful = Learner(make_stack("a", "b", dropout=0.2), checkpointed, total_steps=2)
    careful.update(completions, step=0)

    learner = Learner(make_stack("a", "b", dropout=0.2), settings, total_steps=2)
    memory = MemoryForActivations(longest - 1, torch.OutOfMemoryError(), learner.stack)
    monkeypatch.setattr(passes, "completion_log_probs", memory)
    with caplog.at_level(logging.WARNING, logger="mada.learning.learner"):
        report = learner.update(completions, step=0)
    assert [len(batch.completions) for batch in memory.refused] == [1]
    assert report.out_of_memory == 1
    assert f"single sequence of {longest} tokens" in caplog.text
    assert "training.gradient_checkpointing = true" in caplog.text
    assert learner.micro_batch_tokens == longest
    assert same(snapshot(learner), snapshot(careful))
    assert learner.update(completions, step=1).out_of_memory == 0


def test_a_single_sequence_that_never_fits_is_an_error(make_stack, make_completions, settings, monkeypatch):
    completions = make_completions("a", "b", each=8)
    longest = max(one.length for one in completions)
    learner = Learner(make_stack("a", "b"), settings, total_steps=1)
    before = adapters(learner.stack)
    monkeypatch.setattr(passes, "completion_log_probs", Memory(longest - 1, torch.OutOfMemoryError()))
    with pytest.raises(LearningError, match=f"sequence of {longest} tokens .*activations are recomputed; lower"):
        learner.update(completions, step=0)
    assert same(before, adapters(learner.stack))


def test_dropout_depends_on_seed_step_and_update_and_on_nothing_else(make_stack, make_completions, settings):
    completions = make_completions("a", "b")

    def drawn(seed, step, noise):
        learner = Learner(make_stack("a", "b", dropout=0.4), settings, total_steps=5, seed=seed)
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        found = gradients(learner, completions, step=step)
        assert torch.equal(before, torch.get_rng_state())
        return found

    assert same(drawn(0, 1, noise=1), drawn(0, 1, noise=2))
    assert not same(drawn(0, 1, noise=1), drawn(0, 2, noise=1))
    assert not same(drawn(0, 1, noise=1), drawn(1, 1, noise=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_learner_stopped_and_resumed_ends_where_the_other_does(make_stack, make_completions, settings, dtype):
    settings = settings.model_copy(
        update={"updates_per_rollout": 2, "schedule": "cosine", "warmup_ratio": 0.2, "micro_batch_tokens": 64}
    )
    options = {"dropout": 0.2, "dtype": dtype}
    batches = [make_completions("a", "b", seed=step) for step in range(6)]
    straight = Learner(make_stack("a", "b", **options), settings, total_steps=6)
    first = Learner(make_stack("a", "b", **options), settings, total_steps=6)
    for step in range(6):
        straight.update(batches[step], step=step)
    for step in range(3):
        first.update(batches[step], step=step)
    later = Learner(make_stack("a", "b", **options), settings, total_steps=6)
    for agent in ("a", "b"):
        later.stack.assign(agent, first.stack.tensors(agent))
    later.load_state_dict(first.state_dict())
    for step in range(3, 6):
        later.update(batches[step], step=step)
    assert same(snapshot(straight), snapshot(later))


def test_recomputing_and_smaller_micro_batches_are_part_of_the_state(make_stack, settings):
    learner, later, plain = (Learner(make_stack("a"), settings, total_steps=1) for _ in range(3))
    learner.stack.enable_checkpointing()
    learner.micro_batch_tokens = 100
    later.load_state_dict(learner.state_dict())
    assert (later.stack.recomputes, later.micro_batch_tokens) == (True, 100)
    state = plain.state_dict()
    del state["recomputes"]  # as in checkpoints of before
    plain.load_state_dict(state)
    assert not plain.stack.recomputes


def test_a_strange_agent_is_refused(make_stack, make_completions, settings):
    with pytest.raises(AdapterError, match="no agent 'z'"):
        Learner(make_stack("a"), settings, total_steps=1).update(make_completions("z"), step=0)


def test_other_failures_are_not_mistaken_for_lack_of_memory(make_stack, make_completions, settings, monkeypatch):
    learner = Learner(make_stack("a"), settings, total_steps=1)
    monkeypatch.setattr(passes, "completion_log_probs", Memory(0, RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        learner.update(make_completions("a"), step=0)
