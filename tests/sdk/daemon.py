"""A daemon in a directory of its own."""

import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("UNISONO", str(ROOT / "target/debug/unisono"))


class Daemon:
    """Runs with these settings, and these environment variables besides the usual ones, until it is stopped."""

    def __init__(self, settings, **variables):
        self.place = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.place.name)
        (path / "config").mkdir()
        (path / "config/unisono.toml").write_text(settings)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "XDG_CONFIG_HOME": str(path / "settings"),
            "XDG_DATA_HOME": str(path / "data"),
            **variables,
        }
        self.process = subprocess.Popen(
            [BINARY, "serve", "--bind", "127.0.0.1:0"],
            cwd=path, env=env, text=True, stderr=subprocess.PIPE,
        )
        for line in self.process.stderr:
            found = re.search(r"listening\s+(http://\S+)", line)
            if found:
                self.url = found[1]
                break
        else:
            raise AssertionError("the daemon did not start")
        self.token = (path / "settings/unisono/token").read_text().strip()

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=60)
        self.place.cleanup()
