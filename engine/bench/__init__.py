"""Measurements of engines: each drives an `engine.api.Engine` and returns what can be written as JSON."""
