"""Chat requests: all of the space is drawn and can be sent, and every difference of two servers is seen."""

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlparse

import pytest
from hypothesis import HealthCheck, given, seed, settings
from PIL import Image

from tests.support.models import model_names
from tests.support.overlay import write_overlay
from tests.support.stand_in import write_stand_in
from vlmopt.compiler import compile_model
from vlmopt.engine.client import ChatAnswer
from vlmopt.engine.protocol import Answer, Error
from vlmopt.engine.server import Server
from vlmopt.small import build_small_model, requests_of, small_of
from vlmopt.specs import load_spec
from vlmopt.verify.casefile import decode, encode
from vlmopt.verify.chat import By, ChatCase, ChatImage, Part, Wrong, chat_cases
from vlmopt.verify.chat_pair import ChatPair, _ask, _Restarting, compare_chat
from vlmopt.verify.compare import Difference, Stage
from vlmopt.verify.images import Damage, ImageCase
from vlmopt.verify.search import search

SPEC = load_spec(model_names()[0])
REQUESTS = requests_of(SPEC)
EVERYTHING = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
SMALL = ImageCase(3, 2, form="PNG")


@pytest.fixture(scope="module")
def drawn() -> list[ChatCase]:
    """A thousand requests, drawn as verify draws them."""
    cases: list[ChatCase] = []

    def none(case: ChatCase) -> list[Difference]:
        cases.append(case)
        return []

    search(none, chat_cases(REQUESTS), examples=1000, seed_value=0)
    return cases


def images(cases: list[ChatCase]) -> list[ChatImage]:
    return [image for case in cases for image in case.images()]


def test_all_of_the_space_is_drawn(drawn: list[ChatCase]) -> None:
    assert {len(case.images()) for case in drawn} == {0, 1, 2, 3, 4}
    assert {image.by for image in images(drawn)} == set(get_args(By))
    assert {image.image.form for image in images(drawn)} == {"JPEG", "PNG", "WEBP", "GIF"}
    assert {image.image.damage for image in images(drawn)} == set(get_args(Damage))
    assert {image.image.mode for image in images(drawn)} > {"RGB", "L", "LA", "P", "RGBA", "CMYK", "I;16"}
    assert {image.image.frames > 1 for image in images(drawn)} == {True, False}
    assert {image.image.orientation for image in images(drawn)} == set(range(1, 9))
    assert {case.stream for case in drawn} == {case.again for case in drawn} == {True, False}
    assert {case.tokens for case in drawn} == set(range(1, 9))
    given = [case.processor_kwargs for case in drawn if case.processor_kwargs]
    assert all(kwargs in given for kwargs in REQUESTS.processor_kwargs)
    assert {bool(case.system) for case in drawn} == {True, False}


def test_texts_stand_before_between_and_after_images_and_look_like_them(drawn: list[ChatCase]) -> None:
    orders = {
        "".join("i" if isinstance(part, ChatImage) else "t" for part in turn)
        for case in drawn
        for turn in case.turns
    }
    assert {"i", "ti", "it", "tit", "iti", "ii", "titit", "t"} <= orders
    texts = {part for case in drawn for turn in case.turns for part in turn if isinstance(part, str)}
    assert {REQUESTS.image, REQUESTS.image[:-1], REQUESTS.image.upper(), ""} <= texts
    assert max(len(case.turns) for case in drawn) > 1


def test_one_image_is_sent_twice_also_in_two_ways(drawn: list[ChatCase]) -> None:
    twice = [
        case.images() for case in drawn if len(case.images()) > len({each.image for each in case.images()})
    ]
    assert any(len(set(sent)) < len(sent) for sent in twice)
    assert any(len(set(sent)) == len(sent) for sent in twice)


def test_most_requests_are_good_ones(drawn: list[ChatCase]) -> None:
    bad = [i for i in images(drawn) if i.by in get_args(Wrong) or i.image.damage != "none"]
    assert len(bad) < len(images(drawn)) / 3


def test_a_case_shrinks_to_one_pixel_and_no_words() -> None:
    found: list[ChatCase] = []

    @settings(max_examples=300, **EVERYTHING)
    @seed(1)
    @given(chat_cases(REQUESTS))
    def fails_on_every_image(case: ChatCase) -> None:
        found.append(case)
        assert not case.images()

    with pytest.raises(AssertionError):
        fails_on_every_image()
    (turn,) = found[-1].turns
    (image,) = turn
    assert isinstance(image, ChatImage)
    assert (image.image.width, image.image.height, image.by, image.image.damage) == (1, 1, "base64", "none")
    assert found[-1] == ChatCase((turn,))


def test_cases_survive_a_file(drawn: list[ChatCase], tmp_path: Path) -> None:
    for case in drawn[:300]:
        assert decode(ChatCase, json.loads(json.dumps(encode(case))), tmp_path) == case


def opened(url: str) -> bytes:
    if url.startswith("data:"):
        return base64.b64decode(url.partition(",")[2], validate=True)
    return Path(unquote(urlparse(url).path)).read_bytes()


def test_a_request_carries_its_files_in_order_each_image_once(tmp_path: Path) -> None:
    media = tmp_path / "media"
    media.mkdir()
    other = ImageCase(5, 4, form="WEBP")
    parts: list[Part] = [
        ChatImage(SMALL),
        "between",
        ChatImage(other, "file"),
        ChatImage(SMALL),
        ChatImage(other),
    ]
    case = ChatCase((tuple(parts), ("again",)), "Be brief.", {"size": 1}, 4, True)
    body = case.body(media)
    system, user, assistant, last = body["messages"]
    assert [system["role"], user["role"], assistant["role"]] == ["system", "user", "assistant"]
    assert last["content"] == [{"type": "text", "text": "again"}]
    urls = [part["image_url"]["url"] for part in user["content"] if part["type"] == "image_url"]
    assert [opened(url) for url in urls] == [image.image.file() for image in case.images()]
    assert [url.partition(":")[0] for url in urls] == ["data", "file", "data", "data"]
    assert len(list(media.iterdir())) == 1
    assert user["content"][1] == {"type": "text", "text": "between"}
    assert (body["stream"], body["max_tokens"], body["mm_processor_kwargs"]) == (True, 4, {"size": 1})
    assert json.dumps(body)


def test_wrong_urls_are_wrong_in_the_way_they_say(tmp_path: Path) -> None:
    media = tmp_path / "media"
    media.mkdir()
    url = {by: ChatImage(SMALL, by).url(media, "0.png") for by in get_args(Wrong)}
    assert not Path(urlparse(url["missing file"]).path).exists()
    outside = Path(urlparse(url["outside"]).path)
    assert media not in outside.parents
    assert Image.open(io.BytesIO(outside.read_bytes())).size == (3, 2)
    assert "," not in url["half a URL"]
    with pytest.raises(ValueError, match="base64"):
        opened(url["not base64"])
    assert urlparse(url["unknown scheme"]).scheme not in ("data", "file", "http", "https")


def test_a_case_in_words_says_what_is_unusual() -> None:
    case = ChatCase((("look", ChatImage(SMALL, "file")),), "Be brief.", {"size": 1}, 4, True, True)
    text = "\n".join(case.words())
    for word in ("'look'", "3x2", "by file", "'Be brief.'", "{'size': 1}", "4 tokens", "streamed", "twice"):
        assert word in text


GOOD = ChatAnswer(200, Answer((1, 2), (3, 4), (((3, -0.5),), ((4, -1.0),))), "ab", "length", 2)
REFUSED = ChatAnswer(400, Answer(error=Error("HTTP 400 BadRequestError", "no image at 0x7f00")))
GONE = ChatAnswer(0, Answer(error=Error("ServerError", "ended with exit code 1")), alive=False)
CHANGES: dict[str, tuple[ChatAnswer, ChatAnswer, Stage]] = {
    "text": (GOOD, replace(GOOD, text="aB"), Stage.tokens),
    "finish": (GOOD, replace(GOOD, finish="stop"), Stage.tokens),
    "tokens": (GOOD, replace(GOOD, answer=replace(GOOD.answer, tokens=(3, 5))), Stage.tokens),
    "prompt": (GOOD, replace(GOOD, answer=replace(GOOD.answer, prompt=(1, 1))), Stage.token_ids),
    "counted": (GOOD, replace(GOOD, counted=3), Stage.token_ids),
    "logprob": (
        GOOD,
        replace(GOOD, answer=replace(GOOD.answer, logprobs=(((3, -0.5),), ((4, -1.0000001),)))),
        Stage.logprobs,
    ),
    "refused": (GOOD, REFUSED, Stage.errors),
    "served": (REFUSED, GOOD, Stage.errors),
    "status": (REFUSED, replace(REFUSED, status=422), Stage.errors),
    "class": (
        REFUSED,
        replace(REFUSED, answer=Answer(error=Error("HTTP 400 NotFoundError", "no image at 0x7f00"))),
        Stage.errors,
    ),
    "message": (
        REFUSED,
        replace(REFUSED, answer=Answer(error=Error("HTTP 400 BadRequestError", "no file"))),
        Stage.errors,
    ),
    "broken off": (
        GOOD,
        replace(GOOD, answer=replace(GOOD.answer, error=Error("HTTP 200 E", "e"))),
        Stage.errors,
    ),
    "gone": (REFUSED, GONE, Stage.errors),
    "unwell": (REFUSED, replace(REFUSED, alive=False), Stage.errors),
}


@pytest.mark.parametrize(("stock", "fork", "stage"), CHANGES.values(), ids=list(CHANGES))
def test_every_change_of_an_answer_is_seen(stock: ChatAnswer, fork: ChatAnswer, stage: Stage) -> None:
    found = compare_chat([GOOD, stock], [GOOD, fork])
    assert {each.stage for each in found.differences} == {stage}
    assert "request 2" in found.differences[0].text
    assert found.requests == 2


def test_equal_answers_have_no_differences_and_addresses_do_not_count() -> None:
    moved = replace(REFUSED, answer=Answer(error=Error("HTTP 400 BadRequestError", "no image at 0x7f99")))
    found = compare_chat([GOOD, REFUSED], [GOOD, moved])
    assert found.differences == []
    assert (found.requests, found.refused) == (2, 1)
    assert found.compared[Stage.tokens] == found.compared[Stage.logprobs] == 1


def test_a_server_that_a_request_has_killed_is_an_answer_and_stands_again_for_the_next(
    tmp_path: Path,
) -> None:
    stand_in = write_stand_in(tmp_path / "fork")
    restarting = _Restarting(lambda: Server(stand_in, tmp_path))
    try:
        first = restarting.ready()
        answers = _ask(first, ChatCase(system="die").body(tmp_path), 2)
        assert [(each.status, each.alive) for each in answers] == [(0, False)] * 2
        assert answers[0].answer.error == Error("ServerError", "ended with exit code 3 (RemoteProtocolError)")
        second = restarting.ready()
        assert second is not first
        assert [each.status for each in _ask(second, ChatCase(system="hello").body(tmp_path), 2)] == [200] * 2
    finally:
        restarting.server.close()


# Where two images are batched, their pixels change sign; a file that cannot be opened has another error.
TAMPERED = {
    "vllm/multimodal/utils.py": """

_stock_batches = group_and_batch_mm_kwargs


def group_and_batch_mm_kwargs(mm_kwargs, **options):
    for modality, items, batch in _stock_batches(mm_kwargs, **options):
        if items == 2:
            max((v for v in batch.values() if isinstance(v, torch.Tensor)), key=torch.numel).neg_()
        yield modality, items, batch
""",
    "vllm/multimodal/media/image.py": """

_stock_load = ImageMediaIO.load_bytes


def _load_bytes(self, data):
    try:
        return _stock_load(self, data)
    except ValueError as error:
        raise RuntimeError(str(error)) from error


ImageMediaIO.load_bytes = _load_bytes
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model folder."""
    return build_small_model(SPEC, tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[ChatPair]:
    """Stock beside its fork."""
    _, fork = compile_model(SPEC.name, source="installed", out=folder.parent / "fork")
    with ChatPair(fork.path, folder, trust_remote_code=small_of(SPEC).trust_remote_code) as pair:
        yield pair


@pytest.fixture(scope="module")
def tampered(folder: Path, pair: ChatPair) -> Iterator[ChatPair]:
    """The same stock beside a stand-in for a fork that was tampered with."""
    overlay, trust = write_overlay(folder.parent / "tampered", TAMPERED), small_of(SPEC).trust_remote_code
    with ChatPair(overlay, folder, trust_remote_code=trust, beside=pair) as tampered:
        yield tampered


@pytest.mark.engine
@pytest.mark.timeout(1200)
class TestServers:
    """With real servers."""

    def test_a_fork_answers_chat_requests_as_stock_does(self, pair: ChatPair, drawn: list[ChatCase]) -> None:
        answered = 0
        for case in drawn[:: len(drawn) // 10]:
            stock, fork = pair.answers(case)
            answered += stock[0].status == 200
            assert compare_chat(stock, fork).differences == [], "\n".join(case.words())
        assert answered >= 5

    @pytest.mark.parametrize("by", get_args(Wrong))
    def test_wrong_urls_are_refused_as_in_stock(self, by: Any, pair: ChatPair) -> None:
        self.refused(pair, ChatImage(SMALL, by))

    @pytest.mark.parametrize("by", ["base64", "file"])
    @pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF"])
    @pytest.mark.parametrize("damage", ["truncated", "no image"])
    def test_broken_files_are_refused_as_in_stock(
        self, by: Any, form: Any, damage: Any, pair: ChatPair
    ) -> None:
        self.refused(pair, ChatImage(ImageCase(60, 40, form=form, damage=damage), by))

    def refused(self, pair: ChatPair, image: ChatImage) -> None:
        """A good image does not save the request, and both servers go on."""
        good = ChatImage(SMALL)
        for stream in (False, True):
            stock, fork = pair.answers(ChatCase(((good, image),), stream=stream))
            assert compare_chat(stock, fork).differences == []
            assert stock[0].status >= 400
            assert stock[0].alive
        stock, fork = pair.answers(ChatCase(((good, "hello"),)))
        assert [answer.status for answer in (*stock, *fork)] == [200, 200]

    @pytest.mark.long
    def test_a_fork_that_was_tampered_with_is_seen(self, tampered: ChatPair) -> None:
        one, two = ChatImage(ImageCase(40, 30, form="PNG")), ChatImage(ImageCase(30, 40, form="JPEG"))
        assert tampered.compare(ChatCase(((one, "hello"),))).differences == []
        stages = {each.stage for each in tampered.compare(ChatCase(((one, two),), tokens=4)).differences}
        assert Stage.logprobs in stages
        assert stages <= {Stage.tokens, Stage.logprobs}
        broken = ChatImage(ImageCase(40, 30, form="PNG", damage="truncated"))
        assert {each.stage for each in tampered.compare(ChatCase(((broken,),))).differences} == {Stage.errors}
