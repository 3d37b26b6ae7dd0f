"""Files that name a device by a tag of its package's."""

from __future__ import annotations

from pathlib import Path

from device_packages import install, run

PACKAGE = """
import numpy_device

class Tagged(numpy_device.NumpyDevice):
    name, serialization_tag = "tagged", "tag-of-its-own"

def start():
    numpy_device.register(Tagged())

def fail():
    raise ImportError("no driver")
"""


def test_tags(tmp_path: Path) -> None:
    install(tmp_path, "tagged_vendor", PACKAGE, broken="fail", tagged="start")
    here, file = Path(__file__).parent, tmp_path / "file"
    saved = run(f"import facula as fa; fa.save(fa.ones(2, device='tagged:1'), {str(file)!r})",
                tmp_path, here)  # fmt: skip
    assert saved.returncode == 0, saved.stderr
    script = "import facula as fa; print(fa.load({!r}{}).device)"
    for more, device in [
        ("", "tagged:1"),
        (", map_location={'tagged:1': 'tagged:0'}", "tagged:0"),
        (", map_location={'tag-of-its-own:1': 'cpu'}", "cpu"),
        (", map_location={'tagged:0': 'cpu'}", "tagged:1"),
    ]:
        done = run(script.format(str(file), more), tmp_path, here)
        assert done.stdout.strip() == device, done.stderr
    host = tmp_path / "host"  # no package is asked for what is on the CPU
    script = f"""
import facula as fa
fa.save(fa.ones(2), {str(host)!r})
fa.load({str(host)!r}, map_location={{'tagged:1': 'cpu'}})
print(fa.backends.names())
"""
    assert run(script, tmp_path, here).stdout.strip() == "[]"
    script = "import facula as fa; print(fa.load({!r}{}).device)"
    without = run(script.format(str(file), ""), here)
    assert "saved on 'tag-of-its-own:1', where it cannot go" in without.stderr
