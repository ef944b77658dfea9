"""Small scripts that start something with one thing changed, kept in the user's cache."""

import os
import tempfile
from pathlib import Path


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def put_script(script: Path, text: str) -> None:
    """Have it there. It is written beside its place and moved: several may do it at once."""
    if script.is_file() and script.read_text(encoding="utf-8") == text:
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=script.parent, delete=False) as written:
        written.write(text)
    os.chmod(written.name, 0o755)
    os.replace(written.name, script)
