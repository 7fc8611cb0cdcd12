"""What a benchmark measures: which image sizes and counts, how many tokens, how many requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmopt.errors import UsageError
from vlmopt.measure.photographs import parse_size

SIZES = ("224x224", "640x480", "1920x1080")
ALL_SIZES = ("224x224", "640x480", "1280x960", "1920x1080", "3840x2160")
MOST_IMAGES = 4
"""The engines' settings take so many in a request."""
MOST_TOKENS = 1024
MOST_CONCURRENCY = 256
FIRST = 1
MAIN = (640, 480)


@dataclass(frozen=True, order=True)
class Place:
    """A request with so many images of one size, in pixels."""

    images: int
    width: int
    height: int

    @property
    def size(self) -> str:
        """Such as ``640x480``."""
        return f"{self.width}x{self.height}"


@dataclass(frozen=True)
class Matrix:
    """The requests to measure.

    Attributes:
        places: in order. Each has its stages and time to first token measured.
        deep: those of them with longer answers, and with bursts at the servers.
        tokens: output tokens of the longer answers.
        concurrency: requests at once in a burst.
        everything: whether upstream's own switch is measured at the servers, too.
        seconds: all of it is to be done in so many; None for as long as it takes.
    """

    places: tuple[Place, ...]
    deep: tuple[Place, ...]
    tokens: tuple[int, ...]
    concurrency: tuple[int, ...]
    everything: bool
    seconds: float | None


def matrix_of(
    sizes: Sequence[str] = (),
    images: Sequence[str] = (),
    tokens: Sequence[str] = (),
    concurrency: Sequence[str] = (),
    *,
    everything: bool = False,
    minutes: float | None = None,
) -> Matrix:
    """The matrix that options ask for; what is not given has its default.

    Raises:
        UsageError: an option makes no sense.
    """
    wanted = [parse_size(size) for size in sizes or (ALL_SIZES if everything else SIZES)]
    counts = _numbers("--images", images or [str(n + 1) for n in range(MOST_IMAGES if everything else 1)])
    if max(counts) > MOST_IMAGES:
        raise UsageError(f"--images {max(counts)}: a request has at most {MOST_IMAGES}")
    places = tuple(sorted({Place(count, width, height) for width, height in wanted for count in counts}))
    at_once = _numbers("--concurrency", concurrency or ("1", "4", "16"))
    longer = _numbers("--tokens", tokens or ("1", "16", "128"))
    if max(at_once) > MOST_CONCURRENCY or max(longer) > MOST_TOKENS:
        raise UsageError(
            f"at most {MOST_CONCURRENCY} requests at once (--concurrency) and {MOST_TOKENS} tokens (--tokens)"
        )
    if minutes is not None and minutes <= 0:
        raise UsageError(f"--minutes {minutes:g}: give more than 0, such as 5")
    if minutes is None and not everything:
        minutes = 5
    main = min(places, key=lambda each: (each.images, abs(each.width * each.height - MAIN[0] * MAIN[1])))
    return Matrix(
        places,
        places if everything else (main,),
        tuple(number for number in longer if number != FIRST),
        at_once,
        everything,
        None if minutes is None else 60 * minutes,
    )


def _numbers(option: str, texts: Sequence[str]) -> tuple[int, ...]:
    if not all(text.isdecimal() and int(text) > 0 for text in texts):
        raise UsageError(f"{option} {','.join(texts)}: write whole numbers from 1, like 1,4,16")
    return tuple(sorted(set(map(int, texts))))
