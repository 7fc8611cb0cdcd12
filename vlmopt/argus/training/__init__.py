"""Training ArgusVLM in two stages, with transformers' `Trainer`."""
