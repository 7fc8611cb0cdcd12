"""vLLM serves the same safetensors and answers as transformers does."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

from tests.argus.vllm_answers import TOKENS, cases, prompt_of

ROOT = Path(__file__).parents[2]
ENGINE_S = 400
HALF = "\N{REPLACEMENT CHARACTER}"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


@pytest.fixture(scope="module")
def served(checkpoint, tmp_path_factory):
    """What the program `vllm_answers` wrote about the checkpoint."""
    out = tmp_path_factory.mktemp("vllm") / "answers.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.argus.vllm_answers", str(checkpoint), str(out)],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=ENGINE_S,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"vLLM, exit code {done.returncode}: {done.stderr[-3000:]}", pytrace=False)
    return json.loads(out.read_text("utf-8"))


@pytest.mark.engine
@pytest.mark.slow
def test_vllm_and_transformers_give_the_same_greedy_tokens(tiny, served):
    model, processor = tiny
    answers = served["answers"]
    assert len(answers) == len(list(cases()))
    assert len({tuple(answer["tokens"]) for answer in answers}) > 5
    for answer, (picture, question) in zip(answers, cases(), strict=True):
        assert prompt_of(question) == processor.prompt(question)
        inputs = processor(images=picture, text=processor.prompt(question), return_tensors="pt")
        made = model.generate(
            **inputs, max_new_tokens=TOKENS, output_logits=True, return_dict_in_generate=True
        )
        start = inputs["input_ids"].shape[1]
        assert answer["prompt"] == inputs["input_ids"][0].tolist()
        assert answer["tokens"] == made.sequences[0, start:].tolist()
        sure = [torch.log_softmax(logits[0], -1).max().item() for logits in made.logits]
        assert answer["logprobs"] == pytest.approx(sure, abs=1e-3)
        # vLLM leaves out a character of which only the first bytes have come.
        whole = processor.tokenizer.decode(answer["tokens"])
        assert answer["text"].rstrip(HALF) == whole.rstrip(HALF)


@pytest.mark.engine
@pytest.mark.slow
def test_vllm_refuses_more_pictures_than_the_model_takes(served):
    assert "At most 1 image(s)" in served["two pictures"]


def test_the_plugin_is_registered_where_vllm_looks():
    (found,) = [point for point in entry_points(group="vllm.general_plugins") if point.name == "argusvlm"]
    assert found.value == "vlmopt.argus.vllm_plugin:register"
