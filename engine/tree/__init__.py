"""Medusa trees: one forward pass of the target verifies many candidate continuations."""
