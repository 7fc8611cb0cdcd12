"""What can be said and asked about a scene."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from vlmopt.argus.examples import Example, caption, dense_caption, grounding, vqa, with_article
from vlmopt.argus.scenes.language import COLORS, NAMES, RELATIONS
from vlmopt.argus.scenes.scene import Scene, Thing


def noun(thing: Thing) -> str:
    """`star`, `digit 7`, `word cat`."""
    return thing.name if thing.kind == "shape" else f"{thing.kind} {thing.name}"


def label(thing: Thing) -> str:
    """`large red star`."""
    return f"{thing.size} {thing.color} {noun(thing)}"


# Ways to tell a thing from the others.
_TELLING: dict[str, Callable[[Thing], str]] = {
    "name": noun,
    "color": lambda thing: f"{thing.color} {noun(thing)}",
    "full": label,
}


def examples(scene: Scene, source: random.Random) -> tuple[Example, ...]:
    """One caption, one dense caption, and a question and an expression of each kind that the scene allows.

    Which things they are about is chosen by `source`.
    """
    made = [_caption(scene), dense_caption([(label(thing), scene.box(thing)) for thing in scene.things])]
    possible = [example for ask in (_looks, _counts, _pairs, _referring) for example in ask(scene)]
    possible += _presence(scene, source)
    for kind in dict.fromkeys(example.kind for example in possible):
        made.append(source.choice([example for example in possible if example.kind == kind]))
    return tuple(made)


def _caption(scene: Scene) -> Example:
    *rest, last = [with_article(label(thing)) for thing in scene.things]
    things = f"{', '.join(rest)} and {last}" if rest else last
    return caption(f"{things} on {scene.background}")


def _only(things: Sequence[Thing], tell: Callable[[Thing], object]) -> Iterator[Thing]:
    """The things that nothing else in the scene equals in what `tell` gives."""
    told = [tell(thing) for thing in things]
    return (thing for thing, value in zip(things, told, strict=True) if told.count(value) == 1)


def _looks(scene: Scene) -> Iterator[Example]:
    for thing in _only(scene.things, noun):
        yield vqa("color", f"What color is the {noun(thing)}?", thing.color)
    for thing in _only(scene.things, lambda thing: thing.color):
        yield vqa("name", f"What is {thing.color}?", noun(thing))
    for thing in _only(scene.things, lambda thing: (noun(thing), thing.color)):
        yield vqa("size", f"Is the {thing.color} {noun(thing)} large or small?", thing.size)
    for thing in _only(scene.things, lambda thing: thing.kind):
        if thing.kind != "shape":
            yield vqa(thing.kind, f"Which {thing.kind} is there?", thing.name)


def _counts(scene: Scene) -> Iterator[Example]:
    yield vqa("count", "How many things are there?", str(len(scene.things)))
    for color in dict.fromkeys(thing.color for thing in scene.things):
        count = sum(thing.color == color for thing in scene.things)
        yield vqa("count-color", f"How many {color} things are there?", str(count))


def _presence(scene: Scene, source: random.Random) -> Iterator[Example]:
    """A thing that is there or, as often, one that only shares its name or its color with one that is."""
    here = {(thing.color, noun(thing)) for thing in scene.things}
    there = source.choice(scene.things)
    if source.random() < 0.5:
        yield vqa("presence", f"Is there {with_article(f'{there.color} {noun(there)}')}?", "yes")
        return
    colors = [(color, noun(there)) for color in COLORS]
    names = [(there.color, name) for name in NAMES["shape"]]
    color, name = source.choice([one for one in (*colors, *names) if one not in here])
    yield vqa("presence", f"Is there {with_article(f'{color} {name}')}?", "no")


def _pairs(scene: Scene) -> Iterator[Example]:
    """Each relation between two things that can be named; as many are answered yes as no."""
    named = list(_only(scene.things, noun))
    for one in named:
        for other in named:
            for relation in RELATIONS:
                stands = None if one is other else scene.stands(one, relation, other)
                if stands is not None:
                    answer = "yes" if stands else "no"
                    yield vqa("relation", f"Is the {noun(one)} {relation} the {noun(other)}?", answer)


def _referring(scene: Scene) -> Iterator[Example]:
    """Phrases that fit one thing alone: by name, by color and name, by all, by where it stands."""
    for kind, tell in _TELLING.items():
        for thing in _only(scene.things, tell):
            yield grounding(kind, f"the {tell(thing)}", scene.box(thing))
    for anchor in _only(scene.things, noun):
        for relation in RELATIONS:
            # What may be called so, a matter of taste included, so that the phrase misleads nobody.
            fits = [
                thing
                for thing in scene.things
                if thing is not anchor and scene.stands(thing, relation, anchor) is not False
            ]
            for thing in _only(fits, lambda thing: thing.kind):
                if scene.stands(thing, relation, anchor):
                    phrase = f"the {thing.kind} {relation} the {noun(anchor)}"
                    yield grounding("relation", phrase, scene.box(thing))
