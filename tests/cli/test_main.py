"""The command itself: help, version, and what it does not load."""

import re
import subprocess
import sys

import pytest

import penstock as package
from penstock.cli.main import COMMANDS
from penstock.config import Config
from penstock.configure import flag_of, settings


def test_version(penstock):
    assert penstock("--version").stdout == f"penstock {package.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_every_command(penstock, arguments):
    done = penstock(*arguments)
    assert all(re.search(rf"^  {name} +\S", done.stdout + done.stderr, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("arguments", [("sreve",), ("serve", "--prot", "1"), ("serve", "--http-port", "x")])
def test_wrong_usage_is_told_without_a_stack(penstock, arguments):
    done = penstock(*arguments)
    assert done.returncode == 2
    assert arguments[-2] in done.stderr if len(arguments) == 3 else arguments[0] in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_of_serve_tells_the_defaults_as_they_are(penstock):
    text = " ".join(penstock("serve", "--help").stdout.split())
    options = re.split(r" (?=--[a-z-]+ )", text)
    told = dict(re.findall(r"^(--[a-z-]+) .* \[(\S+)\]$", "\n".join(options), re.MULTILINE))
    by_flag = {flag_of(setting.name): setting for setting in settings()}
    config = Config()
    assert len(told) >= 9
    for flag, default in told.items():
        setting = by_flag[flag]
        assert str(getattr(getattr(config, setting.section), setting.key)) == default


LOADED = """
import sys
try:
    from penstock.cli.main import main
    main()
except SystemExit:
    pass
print(*sys.modules)
"""


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_asking_for_help_loads_nothing_large(argument):
    done = subprocess.run([sys.executable, "-c", LOADED, argument], capture_output=True, text=True, check=True)
    assert not {"numpy", "asyncio", "rich", "h11", "msgspec"} & set(done.stdout.splitlines()[-1].split())
