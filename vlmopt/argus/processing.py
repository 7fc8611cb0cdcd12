"""ArgusVLM's processor for transformers: pictures and text in, text and boxes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers.image_utils import make_flat_list_of_images
from transformers.processing_utils import MultiModalData, ProcessingKwargs, ProcessorMixin

from vlmopt.argus.boxes import BoxFormat, LabelledBox, load_format
from vlmopt.argus.errors import InputError

IMAGE = "<image>"


class ArgusVLMProcessorKwargs(ProcessingKwargs, total=False):  # type: ignore[call-arg]
    """The defaults of a call."""

    _defaults = {  # noqa: RUF012
        "text_kwargs": {"padding": False, "return_mm_token_type_ids": False},
    }


class ArgusVLMProcessor(ProcessorMixin):
    """Makes a model's inputs out of pictures and a text in which each picture is one `<image>`.

    Args:
        image_processor: resizes each picture to the square that the model takes.
        tokenizer: has `<image>` as a special token, and the tokens of the box format as ordinary ones.
        chat_template: the template of a conversation.
        image_tokens: how many tokens a picture takes in the prompt.
        box_format: settings of the box format, see `vlmopt.argus.boxes.load_format`.
        max_images: how many pictures a prompt may have; None for no limit.

    Raises:
        InputError: the tokenizer has no `<image>`; from a call, the numbers of pictures and of `<image>`
            differ, or a prompt has more pictures than `max_images`.
    """

    valid_processor_kwargs = ArgusVLMProcessorKwargs

    def __init__(
        self,
        image_processor: Any = None,
        tokenizer: Any = None,
        chat_template: str | None = None,
        image_tokens: int = 81,
        box_format: Mapping[str, Any] | None = None,
        max_images: int | None = None,
    ) -> None:
        self.image_tokens = image_tokens
        self.box_format = dict(box_format or {"name": "bin"})
        self.max_images = max_images
        self.image_token = IMAGE
        if IMAGE not in tokenizer.get_vocab():
            raise InputError(f"the tokenizer has no token {IMAGE}")
        self.image_token_id = tokenizer.convert_tokens_to_ids(IMAGE)
        self._boxes: BoxFormat | None = None
        super().__init__(image_processor, tokenizer, chat_template=chat_template)

    @property
    def boxes(self) -> BoxFormat:
        """The box format; raises BoxError when `box_format` describes none."""
        if self._boxes is None:
            self._boxes = load_format(self.box_format)
        return self._boxes

    def find_boxes(self, text: str) -> list[LabelledBox]:
        """The boxes of a generated text; raises BoxError when one is malformed."""
        return self.boxes.find(text)

    def prompt(self, question: str, images: int = 1) -> str:
        """The prompt of one question about `images` pictures, which stand before it."""
        pictures = [{"type": "image"}] * images
        content = [*pictures, {"type": "text", "text": question}]
        text = self.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        return str(text)

    def replace_image_token(self, image_inputs: dict[str, Any], image_idx: int, **kwargs: Any) -> str:
        """What takes the place of one `<image>`."""
        return IMAGE * self.image_tokens

    def validate_inputs(self, images: Any = None, text: Any = None, **kwargs: Any) -> None:
        """Checks the arguments of a call, see the class."""
        super().validate_inputs(images=images, text=text, **kwargs)
        if text is None:
            return
        texts = [text] if isinstance(text, str) else list(text)
        if not all(isinstance(one, str) for one in texts):
            return
        places = [one.count(IMAGE) for one in texts]
        given = 0 if images is None else len(make_flat_list_of_images(images))
        if sum(places) != given:
            raise InputError(f"the text has {sum(places)} {IMAGE} for {given} pictures")
        if self.max_images is not None and max(places, default=0) > self.max_images:
            raise InputError(f"a prompt with {max(places)} pictures: this model takes {self.max_images}")

    def _get_num_multimodal_tokens(
        self, image_sizes: list[tuple[int, int]] | None = None, **kwargs: Any
    ) -> MultiModalData:
        if image_sizes is None:
            return MultiModalData()
        count = len(image_sizes)
        return MultiModalData(num_image_tokens=[self.image_tokens] * count, num_image_patches=[1] * count)
