"""Many simulated callers against a running service, over real sockets: what they saw, and whether it is enough."""
