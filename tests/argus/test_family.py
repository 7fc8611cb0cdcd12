"""The named configurations are what they say."""

import pytest
import torch
from transformers import AutoModel, SiglipVisionConfig

from vlmopt.argus.build import build, build_config, build_model, build_processor, count_parameters
from vlmopt.argus.errors import InputError
from vlmopt.argus.family import CONFIGS, load_member, member_names

# As published: the encoder with its pooling head, which is not used here; the language models.
SO400M = 428_225_600
LANGUAGE = {"argusvlm-256m": 134_515_008, "argusvlm-2b": 1_543_714_304}


def test_the_family_is_complete():
    assert member_names() == ["argusvlm-256m", "argusvlm-2b", "argusvlm-tiny"]


@pytest.mark.parametrize("name", member_names())
def test_the_stated_parameters_are_the_true_ones(name):
    member = load_member(name)
    assert count_parameters(build_config(member)) == member.parameters


@pytest.mark.parametrize("name", LANGUAGE)
def test_the_parts_have_the_published_sizes(name):
    config = build_config(load_member(name))
    settings = {**config.vision_config.to_dict(), "vision_use_head": True}
    with torch.device("meta"):
        whole = AutoModel.from_config(SiglipVisionConfig(**settings))
    # At 27 x 27 patches, whether of 378 or of 384 pixels.
    assert sum(weight.numel() for weight in whole.parameters()) == SO400M
    text = config.text_config
    before = {"argusvlm-256m": 49_152, "argusvlm-2b": 151_936}[name]
    added = (text.vocab_size - before) * text.hidden_size
    assert load_member(name).parameters.language - added == LANGUAGE[name]


def test_the_same_seed_gives_the_same_model():
    member = load_member("argusvlm-tiny")
    processor = build_processor(member)
    first, again, other = (build_model(member, processor, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert len(processor.tokenizer) == member.config["text_config"]["vocab_size"]


def test_a_member_takes_a_tokenizer_and_pretrained_parts(tmp_path, tiny):
    model, processor = tiny
    model.model.vision_tower.save_pretrained(tmp_path / "vision")
    model.model.language_model.save_pretrained(tmp_path / "language")
    processor.tokenizer.save_pretrained(tmp_path / "tokenizer")
    text = (CONFIGS / "argusvlm-tiny.yaml").read_text().replace("bins: 100", "bins: 120")
    (tmp_path / "mine.yaml").write_text(text.replace("tokenizer: scenes", "tokenizer: someone/else"))
    member = load_member(str(tmp_path / "mine.yaml"))
    mine = build_processor(member, tokenizer=tmp_path / "tokenizer")
    assert len(mine.tokenizer) == len(processor.tokenizer) + 20
    made = build_model(member, mine, vision=tmp_path / "vision", language=tmp_path / "language")
    for name, weight in model.model.vision_tower.state_dict().items():
        assert torch.equal(made.model.vision_tower.state_dict()[name], weight)
    rows = made.get_input_embeddings().weight
    assert torch.equal(rows[:559], model.get_input_embeddings().weight)
    assert rows.shape == (579, 128)
    assert made.lm_head.weight is rows


def test_what_cannot_be_built_is_a_clear_error(tmp_path, tiny):
    with pytest.raises(InputError, match="no ArgusVLM is named 'argusvlm-9b': choose argusvlm-256m, "):
        load_member("argusvlm-9b")
    with pytest.raises(InputError, match="needs the tokenizer of HuggingFaceTB/SmolLM2-135M-Instruct"):
        build("argusvlm-256m")
    with pytest.raises(InputError, match="no tokenizer can be read from"):
        build("argusvlm-256m", tokenizer=tmp_path)
    (tmp_path / "bad.yaml").write_text("name: x\n")
    with pytest.raises(InputError, match=r"bad\.yaml: title: Field required"):
        load_member(str(tmp_path / "bad.yaml"))
    (tmp_path / "worse.yaml").write_text("{")
    with pytest.raises(InputError, match="is not YAML"):
        load_member(str(tmp_path / "worse.yaml"))
    model, processor = tiny
    with pytest.raises(InputError, match="no pretrained model can be read"):
        build_model(load_member("argusvlm-tiny"), processor, vision=tmp_path)
    model.model.language_model.save_pretrained(tmp_path / "language")
    with pytest.raises(InputError, match="has nothing where this model has embeddings"):
        build_model(load_member("argusvlm-tiny"), processor, vision=tmp_path / "language")
