"""The process behind a `tests.support.worker.Worker` that runs a whole engine, the offline ``LLM``.

    python -m tests.support.engine_child FD

It answers `Load` with None and `Time` with a `FirstToken`, or with an `Error` when vLLM refuses the request.
"""

import os
import pickle
import sys
import time
from multiprocessing.connection import Connection

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

import torch
import vllm
from vllm import LLM, SamplingParams
from vllm.multimodal.media import ImageMediaIO

from tests.support.protocol import Error, FirstToken, Hello, Load, Request

MAX_MODEL_LEN = 8192


def load(message: Load) -> LLM:
    """An engine with vLLM's dummy weights and the caches off, so that every request does all of the work."""
    return LLM(
        message.folder,
        trust_remote_code=message.trust_remote_code,
        load_format="dummy",
        dtype="bfloat16",
        enforce_eager=True,
        mm_processor_cache_gb=0,
        enable_prefix_caching=False,
        max_model_len=MAX_MODEL_LEN,
        max_num_batched_tokens=MAX_MODEL_LEN,
        limit_mm_per_prompt={"image": 1},
    )


def first_token(llm: LLM, request: Request) -> FirstToken | Error:
    one = SamplingParams(max_tokens=1, temperature=0)
    start = time.perf_counter()
    images = [ImageMediaIO().load_bytes(data) for data in request.images]
    try:
        prompt = {"prompt": request.prompt, "multi_modal_data": {"image": images}}
        (output,) = llm.generate([prompt], one, use_tqdm=False)
    except ValueError as error:
        return Error(type(error).__name__, str(error))
    return FirstToken(time.perf_counter() - start, len(output.prompt_token_ids))


def main() -> None:
    torch.set_num_threads(1)
    pipe = Connection(int(sys.argv[1]))
    pipe.send_bytes(pickle.dumps(Hello(vllm.__file__, vllm.__version__)))
    llm: LLM | None = None
    while True:
        try:
            message = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        if isinstance(message, Load):
            llm = load(message)
            torch.set_num_threads(1)
            answer = None
        elif llm is None:
            raise RuntimeError("no model is loaded")
        else:
            answer = first_token(llm, message.request)
        pipe.send_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    main()
