"""Simpler cases are simpler, can be made, and lead from any case to the plainest one."""

from hypothesis import given

from tests.support.models import model_names
from vlmopt.small import requests_of
from vlmopt.specs import load_spec
from vlmopt.verify.images import ImageCase
from vlmopt.verify.requests import Case, cases
from vlmopt.verify.simpler import simpler_cases

REQUESTS = requests_of(load_spec(model_names()[0]))


def weight(case: Case) -> tuple[int, ...]:
    """Requests, images, texts, pixels on the sides, and properties that are not the usual."""
    images = [image for request in case for image in request.images]
    plain = ImageCase(0, 0, content="black")
    odd = sum(
        getattr(image, name) != getattr(plain, name)
        for image in images
        for name in ("mode", "content", "form", "orientation", "seed", "frames", "damage")
    )
    odd += sum(
        (request.after != "") + (request.given != "text") + bool(request.processor_kwargs) + request.cached
        for request in case
    )
    texts = sum(map(bool, (text for request in case for text in request.between)))
    return len(case), len(images), texts, sum(image.width + image.height for image in images), odd


@given(cases(REQUESTS))
def test_each_step_is_simpler_in_one_way_and_harder_in_none(case: Case) -> None:
    for other in simpler_cases(case):
        assert other != case
        assert all(after <= before for after, before in zip(weight(other), weight(case), strict=True))
        for request in other:
            for image in request.images:
                assert image.width > 0
                assert image.height > 0


@given(cases(REQUESTS, large=False))
def test_pictures_of_simpler_cases_can_be_made(case: Case) -> None:
    for other in list(simpler_cases(case))[:12]:
        for request in other:
            for image in request.images:
                if image.width * image.height < 10**6:
                    image.build()


@given(cases(REQUESTS))
def test_the_steps_end_at_an_empty_request(case: Case) -> None:
    for _ in range(1000):
        steps = list(simpler_cases(case))
        if not steps:
            break
        case = steps[0]
    assert len(case) == 1
    assert (case[0].images, case[0].after, case[0].given, case[0].cached) == ((), "", "text", False)
