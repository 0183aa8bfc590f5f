"""Draft heads: their data, training, evaluation and files. Offline work; `engine.tree` serves them."""
