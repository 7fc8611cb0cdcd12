"""Imports are added once, where the file imports."""

from __future__ import annotations

import pytest

from tests.rewrite.helpers import apply, edit


def imported(text: str, *imports: str) -> str:
    out, _ = apply(text + "go()\n", edit("replace", "go()", "gone()", imports=imports))
    assert out.endswith("gone()\n")
    return out.removesuffix("gone()\n")


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("import os\n", "import sys", "import os\nimport sys\n"),
        ("import os\n", "import os", "import os\n"),
        ("import os.path\n", "import os", "import os.path\nimport os\n"),
        ("import os as o\n", "import os", "import os as o\nimport os\n"),
        ("import os as o\n", "import os as o", "import os as o\n"),
        ("import a, os\n", "import os", "import a, os\n"),
        ("from a import (\n    b,\n    c,\n)\n", "from a import c", "from a import (\n    b,\n    c,\n)\n"),
        ("from a import b\n", "from a import b, d", "from a import b\nfrom a import d\n"),
        ("from a import b as c\n", "from a import b", "from a import b as c\nfrom a import b\n"),
        ("from .a import b\n", "from ..a import b", "from .a import b\nfrom ..a import b\n"),
        ("from . import b\n", "from . import b", "from . import b\n"),
        ("from a import *\n", "from a import b", "from a import *\nfrom a import b\n"),
        ("import os; x = 1\n", "import sys", "import os; x = 1\nimport sys\n"),
        ("", "import sys", "import sys\n"),
        ('"""Doc."""\n\nx = 1\n', "import sys", '"""Doc."""\nimport sys\n\nx = 1\n'),
        ("from __future__ import a\n\nx = 1\n", "import b", "from __future__ import a\nimport b\n\nx = 1\n"),
        ("# license\n\nx = 1\n", "import sys", "# license\n\nimport sys\nx = 1\n"),
        (
            "import os\n\nif T:\n    import sys\n",
            "import sys",
            "import os\nimport sys\n\nif T:\n    import sys\n",
        ),
        ("import os\nx = 1\nimport re\nclass A: pass\nimport late\n", "import late", None),
    ],
)
def test_an_import_is_added_unless_it_stands_there(text: str, wanted: str, expected: str | None) -> None:
    if expected is None:
        expected = text.replace("import re\n", "import re\nimport late\n")
    assert imported(text, wanted) == expected


def test_an_import_stands_above_the_first_definition() -> None:
    text = "def early():\n    pass\n\n\nimport os\n"
    assert imported(text, "import sys", "import os") == "import sys\nimport os\n" + text


def test_imports_of_one_edit_stand_in_order_and_once() -> None:
    assert imported("import os\n", "import b", "import a", "import b") == "import os\nimport b\nimport a\n"


def test_imports_keep_the_line_ends_of_the_file() -> None:
    out, _ = apply("import os\r\ngo()\r\n", edit("replace", "go()", "gone()", imports=["import sys"]))
    assert out == "import os\r\nimport sys\r\ngone()\r\n"


def test_an_edit_that_is_present_adds_no_import() -> None:
    out, _ = apply("gone()\n", edit("replace", "go()", "gone()", imports=["import sys"]))
    assert out == "gone()\n"
