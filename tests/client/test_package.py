"""What the package offers under its own name, and that nobody waits for what he does not use."""

import subprocess
import sys

import pytest

import penstock.client
import penstock.client.consumer


@pytest.mark.parametrize("package", [penstock.client, penstock.client.consumer])
def test_all_names_are_there(package):
    for name in package.__all__:
        assert getattr(package, name).__class__
        assert name in vars(package), "looked for once"
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        package.Nobody  # noqa: B018


def test_one_module_does_not_load_the_others():
    asked = (
        "import sys, penstock.client.routes; print(*sorted(name for name in sys.modules if 'penstock.client' in name))"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert sorted(told.stdout.split()) == ["penstock.client", "penstock.client.routes"]
