"""The walk of docs/add-a-model.md, with its own file."""

import json
import lzma
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from vlmopt.engine.protocol import Process, Request
from vlmopt.engine.worker import Worker
from vlmopt.folders import specs_folder
from vlmopt.verify.compare import differences

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "add-a-model.md"
WALK = yaml.safe_load(Path(__file__).with_name("walk.yaml").read_text("utf-8"))

pytestmark = pytest.mark.engine


def vlmopt(*arguments):
    command = [sys.executable, "-c", "from vlmopt.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory):
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (text,) = [block for block in blocks if block.startswith("name: ")]
    path = tmp_path_factory.mktemp("spec") / f"{yaml.safe_load(text)['name']}.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.fixture(scope="module")
def fork(spec_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("fork") / "fork"
    vlmopt("apply", "--model", spec_file, "--out", out)
    return out


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    shutil.copytree(Path(__file__).with_name("model"), folder)
    packed = (specs_folder() / "small" / "tokenizers" / f"{WALK['tokenizer']}.json.xz").read_bytes()
    (folder / "tokenizer.json").write_bytes(lzma.decompress(packed))
    return folder


def test_the_draft_agrees_with_the_finished_spec(spec_file):
    finished = yaml.safe_load(spec_file.read_text("utf-8"))
    draft = yaml.safe_load(vlmopt("models", "infer", finished["architecture"]))
    assert draft["model"] == finished["model"]
    assert draft["placeholder"] == finished["placeholder"]
    assert draft["images"]["outputs"] == finished["images"]["outputs"]


def test_the_spec_is_shown(spec_file):
    assert yaml.safe_load(spec_file.read_text("utf-8"))["title"] in vlmopt("models", "show", spec_file)


def test_its_recipes_apply(fork):
    lock = json.loads((fork / "vlmopt.lock.json").read_text("utf-8"))
    statuses = {rule["id"]: rule["status"] for rule in lock["rules"]}
    assert statuses["device-resize"] == statuses["image-carrier"] == "applied"
    assert "drifted" not in statuses.values()


def test_its_outputs_are_stocks_and_its_images_travel_as_bytes(fork, model_folder):
    noise = np.random.default_rng(5)
    sizes = [(640, 480), (31, 57), (1200, 90), (28, 28), (9, 1300), (900, 1100)]
    pictures = [Image.fromarray(noise.integers(0, 256, (h, w, 3), np.uint8)) for w, h in sizes]
    pairs = zip(pictures[::2], pictures[1::2], strict=True)
    message = Process(tuple(Request(WALK["prompt"], pair) for pair in pairs))
    with Worker() as stock, Worker(fork=fork) as ours:
        outcomes = []
        for worker in (stock, ours):
            worker.load(model_folder)
            worker.start(message)
        outcomes = [worker.finish() for worker in (stock, ours)]
    assert differences(*outcomes) == []
    assert not any(prompt.error for prompt in outcomes[0].prompts)
    sent = [outcome.prompts[0].sent for outcome in outcomes]
    assert sent[1] < 0.6 * sent[0]
