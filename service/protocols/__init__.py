"""Wire dialects: one pure module each, translating between frames and the words of `service.protocols.events`."""
