"""The type that a measured model computes in: what is asked for, or what this machine has arithmetic for."""

import subprocess

import pytest

from tests.cli.command import vlmopt
from tests.support.models import model_names
from vlmopt import completion
from vlmopt.errors import UsageError
from vlmopt.measure import dtype
from vlmopt.measure.dtype import dtype_of, usual_dtype

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def asked_anew():
    usual_dtype.cache_clear()
    yield
    usual_dtype.cache_clear()


def answering(monkeypatch, code, out="", err=""):
    def run(command, **options):
        return subprocess.CompletedProcess(command, code, out, err)

    monkeypatch.setattr(dtype.subprocess, "run", run)


def test_this_machines_arithmetic():
    native = torch.ops.mkldnn._is_mkldnn_bf16_supported() or torch.accelerator.is_available()
    assert usual_dtype() == ("bfloat16" if native else "float32")


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_what_torch_says_last_counts(monkeypatch, name):
    answering(monkeypatch, 0, f"a warning of some library\n{name}\n")
    assert usual_dtype() == name


@pytest.mark.parametrize(
    ("answer", "said"),
    [((1, "", "Traceback\nImportError: libtorch.so\n"), "ImportError: libtorch.so"), ((0,), "nothing")],
)
def test_a_torch_that_does_not_start_is_one_line(monkeypatch, answer, said):
    answering(monkeypatch, *answer)
    with pytest.raises(UsageError, match=said) as error:
        usual_dtype()
    assert "\n" not in str(error.value)


def test_only_types_that_there_are():
    assert dtype_of(None) is None
    assert [dtype_of(name) for name in completion.dtypes("")] == ["bfloat16", "float16", "float32"]
    with pytest.raises(UsageError, match="there is no type 'int8'; choose bfloat16, float16 or float32"):
        dtype_of("int8")


@pytest.mark.parametrize("command", [("profile", "--model", model_names()[0]), ("bench", "nowhere")])
def test_the_commands_refuse_others_in_one_line(command, tmp_path):
    done = vlmopt(*command, "--dtype", "half", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == "vlmopt: there is no type 'half'; choose bfloat16, float16 or float32\n"
