"""Contracts: what a memory, a model's settings, a task and an experiment are."""
