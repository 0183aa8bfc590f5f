"""The service: sockets, protocols, sessions, turns, metrics, command line."""
