"""Prometheus: configuration, rules, and a local server to check them with."""
