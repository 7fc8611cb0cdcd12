"""Processes with a real vLLM in them, and how to talk to them.

`protocol`, `environment`, `worker` and `server` are the side that asks, and import no vLLM. The other modules
run inside a child process, where PYTHONPATH decides whether vLLM is stock's or a fork's.
"""
