"""vLLM's offline ``LLM`` on photographs, as a program.

    python -m tests.support.offline MODEL_NAME MODEL_FOLDER OUT.json

Writes for each prompt the generated token ids, and of each step the best tokens with their log-probabilities.
"""

import json
import sys
from pathlib import Path

from tests.support.models import load_model
from tests.support.photos import photograph

TOKENS = 8
ENGINE = {
    "load_format": "random",
    "dtype": "bfloat16",
    "enforce_eager": True,
    "mm_processor_cache_gb": 0,
    "enable_prefix_caching": False,
    "max_num_batched_tokens": 8192,
    "max_model_len": 8192,
    "limit_mm_per_prompt": {"image": 2},
    "seed": 0,
}


def main() -> None:
    from vllm import LLM, SamplingParams

    name, folder, out = sys.argv[1:]
    model = load_model(name)
    llm = LLM(folder, trust_remote_code=model.trust_remote_code, **ENGINE)
    roof, flower = photograph("china.jpg"), photograph("flower.jpg")
    prompts = [
        {"prompt": model.prompt_for(len(images)), "multi_modal_data": {"image": images}}
        for images in ([roof], [flower], [flower.resize((300, 500)), roof.resize((90, 70))])
    ]
    greedy = SamplingParams(max_tokens=TOKENS, temperature=0, logprobs=2, ignore_eos=True)
    answers = [
        {
            "tokens": list(output.outputs[0].token_ids),
            "logprobs": [
                [[token, entry.logprob] for token, entry in step.items()]
                for step in output.outputs[0].logprobs
            ],
        }
        for prompt in prompts
        for output in llm.generate([prompt], greedy, use_tqdm=False)
    ]
    Path(out).write_text(json.dumps(answers), "utf-8")


if __name__ == "__main__":
    main()
