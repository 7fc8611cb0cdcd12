"""report.md says what was done, to what, why, and what was left alone and why."""

from vlmopt.report.markdown import report

from .plans import MODEL, small_plan


def test_everything_that_happened_is_told() -> None:
    text = report(small_plan())
    assert text.startswith("# Tiny 1B on vLLM 1.2.3\n")
    assert "2 of 4 recipes were applied. Files of vLLM that change: 1 (+2 -2). New files: 0." in text
    done, left = text.split("## What was left alone, and why")
    for rule in ("scale-late", "pin"):
        assert f"`{rule}`: Title of {rule}" in done
        assert f"Why {rule}." in done
    assert "- Needs: `scale-late`" in done
    assert (
        "| `guess` | Title of guess | skipped | its contract is approximate; --allow approximate lets it in |"
        in left
    )
    assert "| `elsewhere` | Title of elsewhere | not-applicable | images.geometry is unknown;" in left
    assert f"| `{MODEL}` | +2 | -2 | `scale-late`, `pin` |" in left


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert report(small_plan()) == report(small_plan())
