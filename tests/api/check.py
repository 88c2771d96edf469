"""The description of the API, by programs that read it, against a daemon of its own.

A validator of specifications, Redocly's recommended rules, TypeScript that is generated from it, and
Schemathesis, which makes up requests and looks at what the daemon answers.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = os.environ.get("UNISONO", str(ROOT / "target/debug/unisono"))
TOOLS = HERE / "node_modules/.bin"
PYTHON = pathlib.Path(sys.executable).parent
SETTINGS = """\
[compaction]
summarisers = ["extractive"]
[models]
default = "extractive"
[turn]
agents = []
"""


class Daemon:
    """A daemon on loopback, in a place of its own."""

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.place.name)
        (path / "config").mkdir()
        (path / "config/unisono.toml").write_text(SETTINGS)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "XDG_CONFIG_HOME": str(path / "settings"),
            "XDG_DATA_HOME": str(path / "data"),
        }
        self.log = open(path / "log", "w+")
        self.process = subprocess.Popen(
            [BINARY, "serve", "--bind", "127.0.0.1:0"], cwd=path, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for line in self.process.stderr:
            found = re.search(r"listening\s+(http://\S+)", line)
            if found:
                self.url = found[1]
                break
        else:
            raise AssertionError("the daemon did not start")
        # The rest is read as well, so that the daemon never waits for a reader.
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=self.log)
        self.token = (path / "settings/unisono/token").read_text().strip()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.drain.wait(timeout=60)
        self.log.close()
        self.place.cleanup()

    def described(self):
        asked = urllib.request.Request(f"{self.url}/v1/openapi.json")
        asked.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.read().decode()


def run(*command, cwd=HERE):
    """Runs a program, which has to end well; gives what it says."""
    command = [str(part) for part in command]
    print("$", " ".join(command).replace(str(ROOT), "."), flush=True)
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    if done.returncode != 0:
        print(done.stdout)
        raise SystemExit(f"{pathlib.Path(command[0]).name} finds faults")
    return done.stdout


def main():
    with Daemon() as daemon, tempfile.TemporaryDirectory() as made:
        described = pathlib.Path(made) / "openapi.json"
        described.write_text(daemon.described())
        run(PYTHON / "openapi-spec-validator", described)
        linted = run(TOOLS / "redocly", "lint", described, "--config", HERE / "redocly.yaml")
        if "Warning was generated" in linted:
            print(linted)
            raise SystemExit("redocly warns")
        run(TOOLS / "openapi-typescript", described, "--output", HERE / "generated.ts")
        run(TOOLS / "tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext",
            "--moduleResolution", "bundler", HERE / "client.ts")
        # Hooks are looked for where Python looks, and what is found is left where it works.
        os.environ["PYTHONPATH"] = str(HERE)
        run(PYTHON / "schemathesis", "--config-file", HERE / "schemathesis.toml", "run", described,
            "--url", daemon.url, "--header", f"Authorization: Bearer {daemon.token}", cwd=made)
    print("the description is valid, and the daemon keeps to it")


if __name__ == "__main__":
    main()
