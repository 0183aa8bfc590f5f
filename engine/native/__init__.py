"""Loops in C, compiled at installation where there is a compiler; without one the engine does with torch's own."""
