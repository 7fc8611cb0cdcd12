"""Hit, present, already or drift; and what drift says."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.rewrite.helpers import apply, code, edit
from vlmopt.rewrite import Action, Edit, Module, Outcome, Probe, Shape, SyntaxErrorInSource, rewrite
from vlmopt.rewrite.region import Region

SOURCE = code(
    """
    class Processor(Base):
        size = 1

        def fields(self, inputs):
            counts = inputs.get("counts")
            return dict(
                pixels=Config.flat_from_sizes("image", counts),
                counts=Config.batched("image", keep=True),
                embeds=Config.batched("image"),
            )

        def call(self, data):
            # first
            data = prepare(data)
            return self.run(data, [1, 2], mode="fast")
    """
)


def outcome(one: Edit, text: str = SOURCE) -> tuple[Outcome, int]:
    result = Module(text, "a/file.py").find(one)
    assert bool(result.splices) == (result.outcome is Outcome.hit)
    assert (result.candidate is not None) == (result.outcome is Outcome.drift)
    return result.outcome, result.found


def candidate(one: Edit, text: str = SOURCE) -> tuple[int, str, str]:
    result = Module(text, "a/file.py").find(one)
    assert result.outcome is Outcome.drift
    assert result.splices == ()
    assert result.candidate is not None
    return result.candidate.line, result.candidate.code, result.candidate.difference


def test_times_is_a_range_of_counts() -> None:
    def times(low: int, high: int) -> Outcome:
        return outcome(edit("replace", 'Config.batched("image", $...a)', "x", times=(low, high)))[0]

    assert [times(1, 1), times(2, 2), times(1, 3), times(3, 4)] == [
        Outcome.drift,
        Outcome.hit,
        Outcome.hit,
        Outcome.drift,
    ]


def test_one_of_several_shapes_must_hit() -> None:
    shapes = [
        Shape("self.run($a, $b)", Action.replace, "new($a, $b)"),
        Shape("self.run($a, $b, mode=$m)", Action.replace, "new($a, $b, $m)"),
        Shape("self.run($a, $...r)", Action.replace, "new($a, $...r)"),
    ]
    result = Module(SOURCE).find(Edit("1", "def *", tuple(shapes[:2]), (1, 1)))
    assert result.outcome is Outcome.drift
    result = Module(SOURCE).find(Edit("1", "class Processor > def call", tuple(shapes[:2]), (1, 1)))
    assert (result.outcome, result.shape, result.found) == (Outcome.hit, 1, 1)
    result = Module(SOURCE).find(Edit("1", None, tuple(shapes), (1, 1)))
    assert result.outcome is Outcome.drift
    assert result.candidate is not None
    assert "shapes 2 and 3 both match" in result.candidate.difference


def test_present_when_the_result_stands_there_and_the_match_does_not() -> None:
    one = edit("replace", "self.go($...a)", "self.run($...a)", "class Processor > def call")
    assert outcome(one) == (Outcome.present, 1)
    twice = edit("replace", "self.go($...a)", "self.run($...a)", "class Processor > def call", times=(2, 2))
    assert outcome(twice) == (Outcome.drift, 0)


def test_code_like_the_result_elsewhere_neither_hides_nor_counts_as_a_match() -> None:
    one = edit("replace", "old($x)", "new($x)")
    assert apply("new(1)\nold(2)\n", one)[0] == "new(1)\nnew(2)\n"
    assert candidate(one, "new(1)\nnew(2)\nolds(3)\n") == (
        3,
        "olds(3)",
        "expected `old`, found `olds` at line 3",
    )


def test_a_half_done_edit_is_completed() -> None:
    one = edit("replace", "old($x)", "new($x)", times=(2, 2))
    assert apply("old(1)\nold(2)\n", one)[0] == "new(1)\nnew(2)\n"
    assert apply("new(1)\nold(2)\n", one)[0] == "new(1)\nnew(2)\n"
    assert outcome(one, "new(1)\nnew(2)\n") == (Outcome.present, 2)
    assert outcome(one, "new(1)\nnew(2)\nold(3)\n")[0] is Outcome.drift


def test_a_replacement_that_holds_its_own_pattern_is_made_once() -> None:
    one = edit("replace", "old($x)", "keep(old($x))", times=(1, 2))
    out, _ = apply("old(1)", one)
    assert out == "keep(old(1))"
    assert outcome(one, out) == (Outcome.present, 1)
    assert apply("keep(old(1)) + old(2)", one)[0] == "keep(old(1)) + keep(old(2))"
    nested = edit("replace", "new($x)", "keep($x)")
    assert apply("keep(new(1))", nested)[0] == "keep(keep(1))"


def test_code_too_plain_to_prove_anything_is_not_taken_for_the_result() -> None:
    assert outcome(edit("replace", "gone($x)", "$x + 1"), "y + 1\n")[0] is Outcome.drift
    assert outcome(edit("replace", "gone($x)", "None"), "None\n")[0] is Outcome.drift


def test_an_insertion_is_present_only_with_the_code_of_its_own_match() -> None:
    one = edit("before", "use($x)", "check($x)", times=(1, 2))
    assert apply("check(a)\nuse(b)\n", one)[0] == "check(a)\ncheck(b)\nuse(b)\n"
    assert outcome(one, "check(b)\nother()\nuse(b)\n") == (Outcome.present, 1)
    assert apply("a\nb\n", edit("before", "b", "a\nb"))[0] == "a\na\nb\nb\n"
    assert apply("use(b)\ncheck(b)\n", one)[0] == "check(b)\nuse(b)\ncheck(b)\n"


def test_already_is_asked_when_no_shape_hits() -> None:
    probe = Probe("Config.batched($m, keep=True)", "class Processor > def fields", {"m": "'image'"})
    assert outcome(edit("replace", "gone($x)", "here($x)", already=[probe])) == (Outcome.already, 0)
    assert outcome(edit("replace", "prepare($x)", "here($x)", already=[probe])) == (Outcome.hit, 1)
    other = Probe("Config.batched($m, keep=True)", "def call")
    assert outcome(edit("replace", "gone($x)", "here($x)", already=[other]))[0] is Outcome.drift


def test_an_edit_that_may_find_nothing_hits_without_a_change() -> None:
    result = Module(SOURCE).find(edit("replace", "gone($x)", "here($x)", times=(0, 2), imports=["import a"]))
    assert (result.outcome, result.found, result.splices) == (Outcome.hit, 0, ())


@pytest.mark.parametrize(
    ("match", "line", "difference"),
    [
        ('Config.flat_sizes("image", $s)', 7, "expected `flat_sizes`, found `flat_from_sizes` at line 7"),
        ('Config.flat_from_sizes("video", $s)', 7, 'expected `"video"`, found `"image"` at line 7'),
        ("Config.batched($x, keep=False)", 8, "expected `False`, found `True` at line 8"),
        ("Config.batched($x, drop=True)", 8, "expected `drop`, found `keep` at line 8"),
        ("self.run($d, [1, 3], mode=$m)", 15, "expected `3`, found `2` at line 15"),
        ("self.run($d, [1, 2])", 15, 'expected nothing more, found `mode="fast"` at line 15'),
        ("self.run($d, [1, 2], $x, mode=$m)", 15, "expected `mode=$m`, found nothing of the kind at line 15"),
        ("self.run($d, $d, mode=$m)", 15, "the same name stands for different code in it"),
        ("data = prepare(data, $x)", 14, "expected `$x`, found nothing of the kind at line 14"),
        ("data = prepare($x)\nreturn self.walk($...a)", 14, "expected `walk`, found `run` at line 15"),
        ("class Processor(Other): $...b", 1, "expected `Other`, found `Base` at line 1"),
        ("def call(self, text): $...b", 12, "expected `text`, found `data` at line 12"),
    ],
)
def test_the_candidate_is_the_nearest_place_and_its_first_difference(
    match: str, line: int, difference: str
) -> None:
    found = candidate(edit("before", match, "x") if "\n" in match else edit("replace", match, "x()"))
    assert (found[0], found[2]) == (line, difference)


def test_a_constraint_that_fails_is_the_difference() -> None:
    one = edit("replace", "$k=Config.flat_from_sizes($...a)", "$k=1", where={"k": "pixel_values"})
    assert candidate(one) == (
        7,
        'pixels=Config.flat_from_sizes("image", counts),',
        "expected $k to be `pixel_values`, found `pixels` at line 7",
    )


def test_too_many_matches_are_counted_and_placed() -> None:
    one = edit("replace", 'Config.batched("image", $...a)', "x()")
    assert candidate(one) == (
        9,
        'embeds=Config.batched("image"),',
        "expected 1 of these, found 2 (line 8, 9)",
    )


def test_a_scope_that_is_gone_is_the_difference() -> None:
    found = candidate(edit("body_start", None, "x", "class Processors > def call"))
    assert found == (
        1,
        "class Processor(Base):",
        "expected `class Processors`, found `class Processor` at line 1",
    )
    found = candidate(edit("replace", "f($x)", "x", "class Processor > def field"))
    assert found == (4, "def fields(self, inputs):", "expected `def field`, found `def fields` at line 4")


def test_a_place_outside_of_the_scope_is_named() -> None:
    found = candidate(edit("replace", "prepare($x)", "x()", "class Processor > def fields"))
    assert found[0] == 5
    found = candidate(edit("replace", "data = prepare($x)", "x", "class Processor > def fields"))
    assert found[0] == 5
    found = candidate(edit("replace", "return self.run($...a)", "x", "class Processor > def fields"))
    assert found[0] == 6


def test_an_attribute_or_method_of_the_same_name_is_not_overridden() -> None:
    found = candidate(edit("attribute", None, "size = 2", "class Processor"))
    assert found[2] == "class Processor has another `size` already, at line 2"
    found = candidate(edit("method", None, "def call(self): pass", "class Processor"))
    assert found[2] == "class Processor has another `call` already, at line 12"


def test_matches_that_overlap_or_do_not_fit_are_drift() -> None:
    assert (
        candidate(edit("replace", "f($x)", "g($x)", times=(1, 9)), "f(f(1))\n")[2]
        == "it overlaps another match"
    )
    found = candidate(edit("replace", "f($x)", "a = $x\nb = a"), "y = f(1)\n")
    assert found[2] == "the code to write is a statement, but the match is inside of one"


def test_a_text_that_is_not_python_is_named_with_its_line() -> None:
    with pytest.raises(SyntaxErrorInSource, match=r"^a/file.py:3: not valid Python"):
        Module("a = 1\n\ndef f(:\n  f(1)\n", "a/file.py").find(edit("replace", "f($x)", "g($x)"))


def test_nothing_is_parsed_when_a_word_of_the_pattern_is_missing() -> None:
    assert Module("def f(:", "file.py").probe(Probe("old($x)")) == 0


def test_syntax_that_this_python_does_not_know_is_parsed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SyntaxError

    monkeypatch.setattr("vlmopt.rewrite.outline.ast.parse", refuse)
    out, (result,) = apply(SOURCE, edit("replace", "prepare($x)", "x($x)", "class Processor > def call"))
    assert result.outcome is Outcome.hit
    assert out == SOURCE.replace("prepare(data)", "x(data)")


def test_rewrite_applies_edits_to_a_text() -> None:
    edits = [edit("replace", "prepare($x)", "x($x)"), edit("replace", "gone($x)", "x($x)", name="2")]
    assert rewrite(SOURCE, edits) == SOURCE.replace("prepare(data)", "x(data)")


@pytest.mark.parametrize("kind", [cst.Name, cst.Call, cst.Arg, cst.Return, cst.FunctionDef])
def test_an_interrupt_while_places_are_noted_stays_one(
    kind: type[cst.CSTNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "_codegen_impl", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Region(SOURCE)
