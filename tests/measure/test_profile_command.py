"""What `vlmopt profile` says when it cannot: one line, exit code 2; and its table. No engine starts here."""

import os
import stat
import sys
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from tests.cli.command import vlmopt
from tests.measure.profiles import made
from tests.support.models import model_names
from vlmopt.errors import UsageError, VlmoptError
from vlmopt.measure import nsight
from vlmopt.measure.profile import Requests, Wanted, Written, engine_kind, profile_model, read_pictures
from vlmopt.measure.sessions import Picture
from vlmopt.measure.stages import OTHER
from vlmopt.measure.watch import Watch
from vlmopt.report.profile import profile_page

MODEL = model_names()[0]


def broken_images(folder):
    whole = folder / "whole.jpg"
    Image.new("RGB", (64, 48), "teal").save(whole)
    (folder / "half.jpg").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (folder / "text.jpg").write_text("no picture")
    (folder / "folder.jpg").mkdir()
    return folder


def test_images_that_cannot_be_read(tmp_path):
    broken_images(tmp_path)
    for name, message in {
        "missing.jpg": "cannot read the image {}: No such file or directory",
        "folder.jpg": "cannot read the image {}: Is a directory",
        "text.jpg": "the image {} cannot be read: no image",
        "half.jpg": "the image {} cannot be read: ",
    }.items():
        path = tmp_path / name
        with pytest.raises(UsageError) as error:
            list(read_pictures([tmp_path / "whole.jpg", path]))
        assert message.format(path) in str(error.value)
        assert "\n" not in str(error.value)
    (picture,) = read_pictures([tmp_path / "whole.jpg"])
    assert (picture.file, picture.form) == ((tmp_path / "whole.jpg").read_bytes(), "JPEG")


def test_the_command_says_one_line(tmp_path):
    broken_images(tmp_path)
    done = vlmopt("profile", "--model", MODEL, "--image", "text.jpg", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == "vlmopt: the image text.jpg cannot be read: no image; name another with --image\n"


@pytest.mark.parametrize(
    ("wanted", "options", "message"),
    [
        (Wanted(size="large"), {}, "'large' is no image size"),
        (Wanted(), {"fork": Path("nowhere")}, "nowhere"),
        (Wanted(), {"model_folder": Path("tests")}, "tests is no model folder: it has no config.json"),
    ],
)
def test_usage(wanted, options, message):
    with pytest.raises(VlmoptError, match=message) as error:
        profile_model(MODEL, wanted, **options)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_an_engine_that_there_is_not():
    with pytest.raises(UsageError, match="there is no engine 'both'; choose offline or serve"):
        engine_kind("both")


def test_nsys_that_is_missing_is_told_with_its_command(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError) as error:
        profile_model(MODEL, Wanted(engine="serve", nsys=True), out=Path("build/p.json"))
    said = "no device timeline: nsys (Nsight Systems) is not installed here; it would run: nsys profile "
    assert str(error.value).startswith(said)
    assert "--output=build/p vlmopt profile" in str(error.value)
    assert f"--model {MODEL} --engine serve" in str(error.value)


def program(path, text):
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_nsys_records_a_short_profile_of_the_same(tmp_path, monkeypatch):
    """A program in place of nsys writes what it was asked to run into the file that it was told to make."""
    program(
        tmp_path / "nsys",
        "import sys\n"
        "(out,) = [word[9:] for word in sys.argv if word.startswith('--output=')]\n"
        "open(out + '.nsys-rep', 'w').write('\\n'.join(sys.argv[1:]))\n",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    arguments = ["--model", MODEL, "--requests", "3"]
    assert nsight.missing(arguments, tmp_path / "p.json") is None
    (file,) = nsight.record(arguments, tmp_path / "out" / "p.json")
    assert file == tmp_path / "out" / "p.nsys-rep"
    words = file.read_text().splitlines()
    assert words[0] == "profile"
    assert "--trace-fork-before-exec=true" in words
    start = words.index("vlmopt.cli")
    assert words[start - 2 : start] == [sys.executable, "-m"]
    assert words[start + 1 : start + 6] == ["profile", *arguments]
    assert not Path(words[-1]).parent.exists(), "the scratch folder is gone"


def test_nsys_that_fails(tmp_path, monkeypatch):
    program(tmp_path / "nsys", "raise SystemExit('no device to look at')")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(
        UsageError, match="nsys ended with exit code 1; its last line was: no device to look at"
    ):
        nsight.record([], tmp_path / "p.json")


class Listening:
    """A session that writes down what is asked of it."""

    pid = 0

    def __init__(self, watch):
        self.watch = watch
        self.asked = []

    def ask(self, pictures):
        self.asked.append((pictures[0].form, self.watch._switch[0]))
        return 7

    def forget(self):
        self.asked.append("forget")


def test_each_picture_is_sent_with_the_timers_off_and_on_and_nothing_is_remembered():
    with Watch() as watch:
        session = Listening(watch)
        requests = Requests(session, [Picture(b"", form) for form in ("first", "second")])
        requests.one()
        for _ in range(2):
            untimed, watched = requests.pair(watch)
            assert untimed >= 0
            assert watched.answer == 7
            assert watched.seconds[OTHER] == pytest.approx(watched.total)
    asked = [("first", 0), ("second", 0), ("second", 1), ("first", 0), ("first", 1)]
    assert session.asked == [each for one in asked for each in ("forget", one)]


def shown(profile):
    console = Console(width=200)
    with console.capture() as capture:
        console.print(profile_page(Written(profile, [Path("build/p.json")])))
    return capture.get()


def test_the_table():
    text = shown(made({"resize": 0.25, "batch": 0.5}))
    rows = {line.split("  ")[0].strip(): line for line in text.splitlines()}
    assert "25.00 (22.50 to 27.50)" in rows["Resize"]
    assert "25.0%" in rows["Resize"]
    assert "25.0%" in rows["Other"]
    assert "not seen: none of its functions was called" in rows["Hash"]
    assert rows["Batch and copy"].count("█") == 2 * rows["Resize"].count("█") > 0
    assert "100.00 (90.00 to 110.00) ms by a clock outside" in text
    assert "+2.0%" in text
    assert "47.70 MB in 3 copies, 0 of them page-locked, for the device, which is the host here" in text
    assert "1 functions that this vLLM does not have" in text
    assert "wrote build/p.json" in text
