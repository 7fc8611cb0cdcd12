"""The parts of each level: where its cases come from, and what compares stock and a fork on one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from hypothesis import strategies as st

from vlmopt.engine.worker import ENGINE, PROCESSORS, Worker
from vlmopt.specs import Requests
from vlmopt.verify.chat import ChatCase, chat_cases
from vlmopt.verify.chat_pair import ChatPair
from vlmopt.verify.compare import Comparison
from vlmopt.verify.images import ImageCase
from vlmopt.verify.pair import Pair
from vlmopt.verify.requests import Case, cases, in_words
from vlmopt.verify.simpler import simpler_cases


class Level(StrEnum):
    """How far a request is followed."""

    processor = "processor"
    tower = "tower"
    engine = "engine"


EXAMPLES = {Level.processor: 300, Level.tower: 150, Level.engine: 50}
"""Examples of each level where the user names no number."""

Compare = Callable[[Any], Comparison]


@dataclass(frozen=True)
class Model:
    """The model that both sides load: its folder, and how requests to it look."""

    folder: Path
    requests: Requests
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Sides:
    """Stock and a fork, running. `compare` asks both; `beside` opens another fork beside the same stock."""

    compare: Compare
    beside: Callable[[Path], AbstractContextManager[Compare]]


class Part(Protocol):
    """One way of asking. `kind` is the type of its cases, `name` what `case.json` calls it."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Any: ...

    def cases(self, requests: Requests) -> st.SearchStrategy[Any]:
        """The request space."""

    def simpler(self, case: Any) -> Iterable[Any]:
        """Cases that are a step simpler, where hypothesis's own shrinking does not do."""

    def images(self, case: Any) -> Sequence[tuple[str, ImageCase]]:
        """The images of a case, each with a name."""

    def words(self, case: Any) -> tuple[str, ...]:
        """A case in lines that a person can read."""

    def open(self, fork: Path, model: Model) -> AbstractContextManager[Sides]:
        """Starts both sides. Raises WorkerDiedError when one of them cannot start."""


@dataclass(frozen=True)
class Paired:
    """Requests to two processes (`vlmopt.verify.pair`)."""

    name: str
    engine: bool
    compared: Callable[[Pair, Case], Comparison]
    config: Mapping[str, Any]
    kind: Any = Case

    def cases(self, requests: Requests) -> st.SearchStrategy[Case]:
        return cases(requests, large=not self.engine)

    def simpler(self, case: Case) -> Iterable[Case]:
        return simpler_cases(case)

    def images(self, case: Case) -> Sequence[tuple[str, ImageCase]]:
        return [
            (f"request-{number}-image-{index}", image)
            for number, request in enumerate(case, 1)
            for index, image in enumerate(request.images, 1)
        ]

    def words(self, case: Case) -> tuple[str, ...]:
        return tuple(line for number, request in enumerate(case, 1) for line in in_words(number, request))

    @contextmanager
    def open(self, fork: Path, model: Model) -> Iterator[Sides]:
        with Worker(child=ENGINE if self.engine else PROCESSORS) as stock:

            @contextmanager
            def beside(other: Path) -> Iterator[Compare]:
                pair = Pair(
                    other,
                    model.folder,
                    model.requests,
                    trust_remote_code=model.trust_remote_code,
                    engine=self.engine,
                    config=self.config,
                    stock=stock,
                )
                with pair:
                    pair.load()
                    yield lambda case: self.compared(pair, case)

            with beside(fork) as compare:
                yield Sides(compare, beside)


@dataclass(frozen=True)
class Served:
    """Chat requests to two OpenAI servers (`vlmopt.verify.chat_pair`)."""

    name: str = "server"
    kind: Any = ChatCase

    def cases(self, requests: Requests) -> st.SearchStrategy[ChatCase]:
        return chat_cases(requests)

    def simpler(self, case: ChatCase) -> Iterable[ChatCase]:
        return ()

    def images(self, case: ChatCase) -> Sequence[tuple[str, ImageCase]]:
        return [(f"request-1-image-{index}", each.image) for index, each in enumerate(case.images(), 1)]

    def words(self, case: ChatCase) -> tuple[str, ...]:
        return tuple(case.words())

    @contextmanager
    def open(self, fork: Path, model: Model) -> Iterator[Sides]:
        trust = model.trust_remote_code
        with ChatPair(fork, model.folder, trust_remote_code=trust) as pair:

            @contextmanager
            def beside(other: Path) -> Iterator[Compare]:
                with ChatPair(other, model.folder, trust_remote_code=trust, beside=pair) as another:
                    another.ready()
                    yield another.compare

            pair.ready()
            yield Sides(pair.compare, beside)


PROCESSOR = Paired("processor", False, Pair.processed, {})
TOWER = Paired("tower", True, lambda pair, case: pair.processed(case, embed=True), {})
SERVER = Served()
OFFLINE = Paired("offline", True, Pair.generated, {})

PARTS: Mapping[Level, Sequence[Part]] = {
    Level.processor: (PROCESSOR,),
    Level.tower: (TOWER,),
    Level.engine: (OFFLINE, SERVER),
}
