"""The Programming Knowledge Graph: build it, store it and read it."""
