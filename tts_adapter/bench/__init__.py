"""Benchmarks of pacing on recorded and generated engine traces, in virtual time."""
