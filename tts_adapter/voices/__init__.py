"""Voices: one module each, all keeping the contract of `tts_adapter.voice`."""
