"""What is measured: starting an engine, waiting until it serves, its logs, stopping it.

`simulated/` is the built-in engine. Nothing here sends a request.
"""
