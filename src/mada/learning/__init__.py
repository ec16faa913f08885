"""Learning: rollouts, advantages, the GRPO loss, the learner and the trainer."""
