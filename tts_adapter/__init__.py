"""From tokens to sound: pacing, text filtering, segmenting, voices, playout. Knows nothing of HTTP or the engine."""
