"""Evaluating ArgusVLM: questions with known answers, asked of transformers, of vLLM and of a fork."""
