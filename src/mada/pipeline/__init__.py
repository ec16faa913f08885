"""The whole method, stage by stage: split, generators, critic data, critics, evaluate, report (Algorithm 2)."""
