"""Will a model on a GPU keep the 20 ms objective? A roofline of step time, token inter-arrival time and calls that fit.

Pure arithmetic: nothing here reads a file, a clock or the pacer; the pacer comes in as a callable.
"""
