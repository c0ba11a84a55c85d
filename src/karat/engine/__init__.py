"""Carries a protocol out: plan, worker, events, executors."""
