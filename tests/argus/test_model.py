"""ArgusVLM in transformers."""

import pytest
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

import vlmopt.argus.auto  # noqa: F401
from vlmopt.argus.configuration import ArgusVLMConfig
from vlmopt.argus.errors import InputError
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor
from vlmopt.argus.scenes import Scenes

SCENES = Scenes("train", count=8)
QUESTIONS = ["Where is the red star?", "What color is the circle?", "Describe the picture with boxes."]


def inputs_of(processor, index=0, question=QUESTIONS[0]):
    return processor(images=SCENES[index].image(), text=processor.prompt(question), return_tensors="pt")


def test_saving_and_loading_changes_nothing(tiny, checkpoint):
    model, processor = tiny
    assert (checkpoint / "model.safetensors").stat().st_size < 8_000_000
    config = AutoConfig.from_pretrained(checkpoint)
    again = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32)
    reader = AutoProcessor.from_pretrained(checkpoint)
    assert (type(config), type(again)) == (ArgusVLMConfig, ArgusVLMForConditionalGeneration)
    assert type(reader) is ArgusVLMProcessor
    assert reader.boxes.settings() == processor.boxes.settings() == {"name": "bin", "bins": 100}
    mine, theirs = inputs_of(processor), inputs_of(reader)
    assert {key: value.tolist() for key, value in mine.items()} == {
        key: value.tolist() for key, value in theirs.items()
    }
    with torch.no_grad():
        assert torch.equal(model(**mine).logits, again(**theirs).logits)
    assert {**model.state_dict()}.keys() == {**again.state_dict()}.keys()
    assert again.generation_config.eos_token_id == reader.tokenizer.convert_tokens_to_ids("<|im_end|>")


def test_answers_depend_on_the_picture_and_on_the_question(tiny):
    model, processor = tiny
    answers = set()
    for index in range(3):
        for question in QUESTIONS[:2]:
            answer = model.generate(**inputs_of(processor, index, question), max_new_tokens=6)
            answers.add(tuple(answer[0, -6:].tolist()))
    assert len(answers) == 6


def test_the_cache_changes_no_token(tiny):
    model, processor = tiny
    inputs = inputs_of(processor)
    fast = model.generate(**inputs, max_new_tokens=8)
    slow = model.generate(**inputs, max_new_tokens=8, use_cache=False)
    assert torch.equal(fast, slow)
    ids = inputs["input_ids"]
    with torch.no_grad():
        for _ in range(8):
            logits = model(input_ids=ids, pixel_values=inputs["pixel_values"]).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(fast, ids[:, : fast.shape[1]])


def test_a_padded_batch_gives_what_each_prompt_alone_gives(tiny):
    model, processor = tiny
    texts = [processor.prompt(question) for question in QUESTIONS]
    pictures = [SCENES[index].image() for index in range(3)]
    batch = processor(images=pictures, text=texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        together = model(**batch).logits
        for index, (picture, text) in enumerate(zip(pictures, texts, strict=True)):
            alone = model(**processor(images=picture, text=text, return_tensors="pt")).logits[0]
            torch.testing.assert_close(together[index, : len(alone)], alone, atol=1e-3, rtol=1e-3)


def test_labels_give_the_mean_cross_entropy(tiny):
    model, processor = tiny
    inputs = inputs_of(processor)
    labels = inputs["input_ids"].clone()
    labels[:, :-5] = -100
    with torch.no_grad():
        output = model(**inputs, labels=labels)
    wanted = torch.nn.functional.cross_entropy(output.logits[0, -6:-1], labels[0, -5:])
    torch.testing.assert_close(output.loss, wanted)
    model.train()
    try:
        learning = model(**inputs, labels=labels)
        summed = model(**inputs, labels=labels, num_items_in_batch=20)
    finally:
        model.eval()
    torch.testing.assert_close(learning.loss, wanted)
    torch.testing.assert_close(summed.loss, wanted * 5 / 20)
    assert learning.logits is None
    learning.loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())
    model.zero_grad()


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (300, 7), (96, 96), (640, 480)])
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_pictures_of_any_size_and_mode_are_taken(tiny, size, mode):
    _, processor = tiny
    picture = Image.new(mode, size, 130 if mode == "L" else (130, 40, 200, 255)[: len(mode)])
    inputs = processor(images=picture, text=processor.prompt("What?"), return_tensors="pt")
    assert inputs["pixel_values"].shape == (1, 3, 96, 96)
    assert (inputs["input_ids"] == processor.image_token_id).sum() == 36
    color = inputs["pixel_values"].mean(dim=(0, 2, 3))
    wanted = torch.tensor([130, 130, 130] if mode == "L" else [130, 40, 200]) / 127.5 - 1
    torch.testing.assert_close(color, wanted, atol=0.01, rtol=0)


def test_pictures_and_placeholders_must_match(tiny):
    model, processor = tiny
    picture, one = SCENES[0].image(), processor.prompt("What?")
    for images, text, message in [
        (None, one, r"the text has 1 <image> for 0 pictures"),
        ([picture, picture], one, r"the text has 1 <image> for 2 pictures"),
        (picture, "What?", r"the text has 0 <image> for 1 pictures"),
        ([picture] * 2, processor.prompt("What?", images=2), "a prompt with 2 pictures: this model takes 1"),
    ]:
        with pytest.raises(InputError, match=message):
            processor(images=images, text=text, return_tensors="pt")
    inputs = processor(images=picture, text=one, return_tensors="pt")
    with pytest.raises(InputError, match="the prompt has 29 image tokens, its 1 pictures have 36"):
        model(input_ids=inputs["input_ids"][:, 10:], pixel_values=inputs["pixel_values"])
    with pytest.raises(InputError, match="give input_ids or inputs_embeds"):
        model(pixel_values=inputs["pixel_values"])
    with pytest.raises(InputError, match="pictures need input_ids"):
        model(inputs_embeds=torch.zeros(1, 2, 128), pixel_values=inputs["pixel_values"])


def test_the_template_takes_text_parts_and_plain_strings(tiny):
    _, processor = tiny
    turns = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [{"type": "text", "text": "yes"}]},
    ]
    text = processor.apply_chat_template(turns, add_generation_prompt=False)
    assert text == "<|im_start|>user\nHello.<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"
    assert processor.prompt("Hi?") == ("<|im_start|>user\n<image>Hi?<|im_end|>\n<|im_start|>assistant\n")
