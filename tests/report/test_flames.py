"""A flame graph goes into the page as frames, names and tips, and as nothing else."""

from vlmopt.measure.flame_svg import flame_svg
from vlmopt.report.flames import inline_flame

from .evidence import STACKS

HOSTILE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 20" aria-label="&quot;&gt;&lt;b&gt;"
    onload="owned()"><script>owned()</script><style>* {display: none}</style>
  <g onclick="owned()" id="main" class="fork evil" style="x:1"><title>&lt;b&gt;</title>
    <rect class="fork" x="1" y="nan" width="1e99" height="4" fill="url(https://example.org)"/>
    <a href="javascript:owned()"><text>link</text></a><foreignObject><img/></foreignObject>
    <text x="2" y="3">a &amp; b</text><use href="https://example.org/#a"/></g></svg>"""


def test_every_frame_is_there() -> None:
    picture = inline_flame(flame_svg(STACKS, "a title"))
    assert picture is not None
    assert picture.count("<rect") == picture.count("<g>") == picture.count("<title>") == 6
    assert "<title>vllm/b.py:resize, 700.0 ms, 77.8%</title>" in picture
    assert "vllm/a.py:&lt;module&gt;" in picture
    assert '<rect x="10" y="46" width="1180" height="16" rx="1" class="other">' in picture
    assert 'aria-label="a title"' in picture
    assert "style" not in picture


def test_nothing_else_is() -> None:
    assert inline_flame(HOSTILE) == (
        '<svg viewBox="0 0 10 20" role="img" aria-label="&#34;&gt;&lt;b&gt;"><g><title>&lt;b&gt;</title>'
        '<rect x="1" height="4" class="fork"></rect><text x="2" y="3">a &amp; b</text></g></svg>'
    )


def test_what_is_no_picture_is_left_out() -> None:
    for text in ("", "<svg", "<svg/>", "<svg viewBox='a b c d'/>", "<p>hello</p>"):
        assert inline_flame(text) is None
