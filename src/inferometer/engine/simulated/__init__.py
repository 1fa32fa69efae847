"""The built-in engine: a roofline, a continuous-batching scheduler and a prefix cache.

It holds no weights and makes no text. The same scheduler runs inside a virtual event loop
(`virtual.py`) or behind an OpenAI-compatible server in real time (`server.py`); the same flags set
up both. What it answers is a prediction, marked `simulated` wherever it appears.
"""
