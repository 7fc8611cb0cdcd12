"""ArgusVLM: a compact vision-language family that also answers with boxes.

Nothing heavy is imported here; the modules below may import torch, transformers and, in `argusvlm`, vLLM.
"""
