"""What vLLM answers about some pictures, as a program.

    python -m tests.argus.vllm_answers MODEL_FOLDER OUT.json

vLLM learns of the architecture from its plug-in entry point alone: nothing is imported for it here.
Writes for each of `cases` the ids of the prompt and of the answer and the log-probabilities of these,
and what becomes of a request with two pictures.
"""

import json
import sys
from pathlib import Path

from PIL import Image

from vlmopt.argus.scenes import Scenes

TOKENS = 10
QUESTIONS = ["Where is the red star?", "What color is the circle?", "Describe the picture with boxes."]
SIZES = [(128, 128), (1, 1), (640, 90), (96, 96)]


def cases():
    """(picture, question) pairs: scenes as they are, stretched to odd sizes, and a gray one."""
    scenes = Scenes("heldout", count=8)
    for index, size in enumerate([*SIZES, *SIZES]):
        yield scenes[index].image().resize(size), QUESTIONS[index % len(QUESTIONS)]
    yield Image.new("L", (50, 70), 128), QUESTIONS[0]


def prompt_of(question, images=1):
    return f"<|im_start|>user\n{'<image>' * images}{question}<|im_end|>\n<|im_start|>assistant\n"


def main() -> None:
    from vllm import LLM, SamplingParams
    from vllm.exceptions import VLLMValidationError

    folder, out = sys.argv[1:]
    llm = LLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        mm_processor_cache_gb=0,
        enable_prefix_caching=False,
        max_model_len=512,
        max_num_batched_tokens=2048,
        seed=0,
    )
    greedy = SamplingParams(max_tokens=TOKENS, temperature=0, logprobs=0, skip_special_tokens=False)
    prompts = [
        {"prompt": prompt_of(question), "multi_modal_data": {"image": picture}}
        for picture, question in cases()
    ]
    answers = [
        {
            "prompt": list(output.prompt_token_ids),
            "tokens": list(output.outputs[0].token_ids),
            "logprobs": [
                step[token].logprob
                for token, step in zip(output.outputs[0].token_ids, output.outputs[0].logprobs, strict=True)
            ],
            "text": output.outputs[0].text,
        }
        for output in llm.generate(prompts, greedy, use_tqdm=False)
    ]
    picture = prompts[0]["multi_modal_data"]["image"]
    try:
        llm.generate([{"prompt": prompt_of("?", 2), "multi_modal_data": {"image": [picture] * 2}}], greedy)
        refused = None
    except VLLMValidationError as error:
        refused = str(error)
    Path(out).write_text(json.dumps({"answers": answers, "two pictures": refused}), "utf-8")


if __name__ == "__main__":
    main()
