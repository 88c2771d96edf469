#!/usr/bin/env python3
"""Regenerates config/catalogue.toml from the model table that the PyPI package litellm ships (MIT).

Windows, prices, dates of retirement and abilities of the chat models of OpenAI, Anthropic and
Google are taken from it. Needs Python 3.9 and network; the package goes to a throw-away virtual
environment. What the table does not have is in config/models.toml, which wins over the result.

    scripts/catalogue.py                                        # the newest table, as of today
    scripts/catalogue.py --table t.json --source "litellm 1.2.3" --date 2026-11-23 --out -
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import venv
from decimal import Decimal

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "litellm"
TABLE = "model_prices_and_context_window_backup.json"
PROVIDERS = {"openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Google"}
# Endpoints that the dialects of this program speak.
SPOKEN = {"/v1/chat/completions", "/v1/responses"}
# Not chat models: fine-tunes have names of their own, and these make sound or run elsewhere.
EXCLUDED = re.compile(r"^ft:|audio|tts|realtime|container|^gemini-exp|^learnlm|^lyria|omni")
DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4})$")
# Models that went so long ago are left out.
KEPT_DAYS = 365
# Their prices in the table are promotions that end with November or December 2026: models.toml has
# the lasting ones.
PROMOTED = {
    "gemini-3.6-flash",
    "gemini-3.7-flash",
    "gemini-3.8-flash",
    "gemini-4-argon",
    "gemini-flash-latest",
}
# OpenAI's windows of which the table has only the part for input: input and output together.
INPUT_ONLY = {272_000, 922_000}
# An output as long as the window is no bound of its own: what is written instead, at most.
UNBOUNDED_OUTPUT = 65_536


def main():
    arguments = read_arguments()
    if arguments.table:
        table, source = json.loads(arguments.table.read_text()), arguments.source
    else:
        table, source = download()
    text = render(models(table, arguments.date), source, arguments.date)
    if str(arguments.out) == "-":
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text)
        print(f"{arguments.out}: {text.count('[models.')} models from {source}", file=sys.stderr)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", type=pathlib.Path, help="the table; default: download it")
    parser.add_argument("--source", default="a table of one's own", help="where --table is from")
    parser.add_argument(
        "--date",
        type=datetime.date.fromisoformat,
        default=datetime.date.today(),
        help="the date of the result",
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "config" / "catalogue.toml")
    return parser.parse_args()


def download():
    """The table of the newest package, and the package's name and version."""
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = pathlib.Path(directory) / "bin" / "python"
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--no-deps", PACKAGE], check=True
        )
        # The package is not imported: its dependencies are not there, and nothing of it has to run.
        find = (
            "import importlib.metadata as m; d = m.distribution('litellm'); "
            f"print(d.locate_file('litellm/{TABLE}'), d.version, sep='\\n')"
        )
        found = subprocess.run([python, "-c", find], check=True, capture_output=True, text=True)
        path, version = found.stdout.split("\n")[:2]
        return json.loads(pathlib.Path(path).read_text()), f"{PACKAGE} {version}"


def models(table, today):
    """The entries by provider and name, those left out that say what their undated name says."""
    found = {provider: {} for provider in PROVIDERS}
    # A name with its provider in front comes last, and wins.
    for key, row in sorted(table.items(), key=lambda item: ("/" in item[0], item[0])):
        provider = row.get("litellm_provider")
        name = key.removeprefix(f"{provider}/")
        if provider in found and is_chat(name, row):
            found[provider][name] = entry(provider, name, row)
    for entries in found.values():
        retire_aliases(entries)
        for name in list(entries):
            retires = entries[name].get("retires")
            gone = retires and (today - datetime.date.fromisoformat(retires)).days > KEPT_DAYS
            if gone or entries[name] == entries.get(DATED.sub("", name)) and DATED.search(name):
                del entries[name]
    return found


def is_chat(name, row):
    endpoints = row.get("supported_endpoints")
    return (
        row.get("mode") in ("chat", "responses")
        and not EXCLUDED.search(name)
        and "text" in (row.get("supported_output_modalities") or ["text"])
        and (endpoints is None or bool(SPOKEN & set(endpoints)))
    )


def entry(provider, name, row):
    """The keys of one entry, in the order in which they are written."""
    window = int(row.get("max_input_tokens") or 0)
    output = int(row.get("max_output_tokens") or 0)
    if provider == "openai" and window in INPUT_ONLY:
        window += output
    # A window that the table does not have is assumed, with a warning; the prices and dates count.
    keys = {"window": window} if window else {}
    if window and output >= window:
        # It would leave no room for a question.
        output = min(UNBOUNDED_OUTPUT, window // 4)
    if output:
        keys["max_output"] = output
    if provider == "openai" and re.match(r"gpt-(4$|4-|3\.5)", name):
        keys["encoding"] = "cl100k_base"
    if row.get("prompt_cache_min_tokens"):
        keys["cache_minimum"] = int(row["prompt_cache_min_tokens"])
    if reasons(provider, row):
        keys["reasoning"] = True
    if row.get("supports_prompt_cache_breakpoint"):
        # These came with a cache that stays half an hour.
        keys["breakpoints"] = True
        keys["cache_seconds"] = 1_800
    if row.get("supports_vision"):
        keys["images"] = True
    if row.get("supports_pdf_input"):
        keys["documents"] = True
    if provider == "openai" and (row.get("supports_reasoning") or row["mode"] == "responses"):
        keys["dialect"] = "openai-responses"
    if name not in PROMOTED and (prices := price(provider, row, "")):
        keys["price"] = prices
    if long := long_prompt(provider, row):
        keys["long_prompt"] = long
    if row.get("deprecation_date"):
        keys["retires"] = row["deprecation_date"]
    return keys


def reasons(provider, row):
    """Whether it takes no temperature, and wants its reasoning back within a run."""
    if provider == "openai":
        return bool(row.get("supports_reasoning"))
    return row.get("supports_sampling_params") is False


def price(provider, row, suffix):
    """Dollars per million tokens. What is nothing in the table is not known to be free."""
    names = {
        "input": "input_cost_per_token",
        "output": "output_cost_per_token",
        "cache_read": "cache_read_input_token_cost",
        "cache_write": "cache_creation_input_token_cost",
    }
    prices = {}
    for key, name in names.items():
        if amount := row.get(name + suffix):
            prices[key] = (Decimal(repr(float(amount))) * 1_000_000).normalize()
    if provider == "openai" and "cache_read" in prices:
        # OpenAI's older models write their cache for what input costs.
        prices.setdefault("cache_write", prices["input"])
    return prices


def long_prompt(provider, row):
    """What the whole of a request costs whose input is long."""
    above = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
    over = [int(found[1]) for key in row if (found := above.fullmatch(key))]
    if not over:
        return None
    prices = price(provider, row, f"_above_{min(over)}k_tokens")
    return {"over": min(over) * 1_000, **prices} if prices else None


def retire_aliases(entries):
    """An undated name goes with the last of its dated ones, where all of those go."""
    dates = {}
    for name, keys in entries.items():
        if DATED.search(name):
            dates.setdefault(DATED.sub("", name), []).append(keys.get("retires"))
    for name, own in dates.items():
        if name in entries and all(own):
            entries[name].setdefault("retires", max(own))


def render(found, source, today):
    lines = [
        f"# Generated by scripts/catalogue.py from the model table of {source}: do not edit.",
        "# models.toml beside it adds models and overrides these.",
        "",
        f'generated = "{today.isoformat()}"',
    ]
    for provider, title in PROVIDERS.items():
        lines += ["", f"# --- {title} " + "-" * (90 - len(title))]
        for name, keys in sorted(found[provider].items()):
            lines += ["", f'[models."{provider}/{name}"]']
            lines += [f"{key} = {value(key, of)}" for key, of in keys.items()]
    return "\n".join(lines) + "\n"


def value(key, of):
    if isinstance(of, bool):
        return str(of).lower()
    if isinstance(of, dict):
        return "{ " + ", ".join(f"{k} = {value(k, v)}" for k, v in of.items()) + " }"
    if isinstance(of, Decimal):
        whole, _, part = f"{of:f}".partition(".")
        return f"{whole}.{part.ljust(2, '0')}"
    if isinstance(of, int):
        return f"{of:_}"
    return f'"{of}"'


if __name__ == "__main__":
    main()
