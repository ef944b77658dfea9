"""How settings get their values: the file, then the environment, then the command line; what comes later wins.

    [store]                                      # penstock.toml
    segment_bytes = "64MiB"

    PENSTOCK_STORE_SEGMENT_BYTES=64MiB           # the same as a variable

Every layer is checked as a whole before any value is used: a name that no setting has is refused with the nearest one
that exists, in the file and in the environment alike, so that a typing error never passes for a default. Sizes and
durations may carry a unit where the setting's name has bytes or ms in it. What the settings are: `config.py`.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

import msgspec

from penstock.config import Config
from penstock.errors import ConfigError
from penstock.logs import FORMATS, LEVELS

PREFIX = "PENSTOCK_"
# No settings: read elsewhere, and a broker may be started where they are set.
OTHER_VARIABLES = frozenset(
    {
        "PENSTOCK_COMPAT_NAMESRV",
        "PENSTOCK_COMPAT_PULSAR",
        "PENSTOCK_CRASH_ROUNDS",
        "PENSTOCK_CRASH_SEED",
        "PENSTOCK_ENGINE",
        "PENSTOCK_EXAMPLES",
        "PENSTOCK_FUZZ_RUNS",
        "PENSTOCK_FUZZ_SEED",
        "PENSTOCK_LAKE",
        "PENSTOCK_OPERATOR",
        "PENSTOCK_PURE",
        "PENSTOCK_REQUIRE_COMPILED",
        "PENSTOCK_REQUIRE_INTEROP",
    }
)
PORT_MAX = 65_535

Sections = Mapping[str, Mapping[str, object]]


class Setting(NamedTuple):
    """One value of `Config`."""

    section: str
    key: str
    type: object
    default: object

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.section}_{self.key}".upper()


class Given(NamedTuple):
    """A value that somebody set, and where, in words for an error."""

    setting: Setting
    value: object
    where: str


def settings() -> list[Setting]:
    """All there are, in the order of `config.py`."""
    return [
        Setting(section.name, field.name, field.type, _default_of(field))
        for section in msgspec.structs.fields(Config)
        for field in msgspec.structs.fields(section.type)
    ]


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    factory = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


def load(file: str | None, environment: Mapping[str, str], flags: Sections) -> Config:
    """The configuration that these three make together; a ConfigError names the first thing wrong."""
    layers = [from_file(file) if file else [], from_environment(environment), from_flags(flags)]
    return _filled(Config(), (given for layer in layers for given in layer))


def overlaid(config: Config, sections: Sections) -> Config:
    """The same configuration, changed where the sections say so."""
    return _filled(config, _from_sections(sections, where=str))


def _filled(config: Config, values: Iterable[Given]) -> Config:
    for setting, value, where in values:
        setattr(getattr(config, setting.section), setting.key, _typed(setting, value, where))
    return config


# --- the three layers -------------------------------------------------------------------------------------------------


def from_file(path: str) -> list[Given]:
    return _from_sections(_toml(path), where=lambda name: f"{path}: {name}")


def from_flags(flags: Sections) -> list[Given]:
    """Flags are told in their own spelling: `--durability`, not `store.durability`."""
    return _from_sections(flags, where=flag_of)


def from_environment(environment: Mapping[str, str]) -> list[Given]:
    """A variable that is set to nothing counts as not set, since container tools can often do no better."""
    known = {setting.variable: setting for setting in settings()}
    given = []
    for name, text in environment.items():
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if name not in known:
            raise ConfigError(f"the variable {name} sets nothing{_nearest(name, [*known, *OTHER_VARIABLES])}")
        if text:
            given.append(Given(known[name], _list_or_text(known[name], text), f"the variable {name}"))
    return given


def flag_of(name: str) -> str:
    """How the command line spells a setting: `--log-level` for log.level, elsewhere the key alone."""
    section, _, key = name.partition(".")
    return "--" + (f"{section}-{key}" if section == "log" else key).replace("_", "-")


def _from_sections(sections: Sections, where: Callable[[str], str]) -> list[Given]:
    known = {setting.name: setting for setting in settings()}
    given = []
    for name, value in _flattened(sections, where):
        if name not in known:
            raise ConfigError(f"{where(name)} is not a setting{_nearest(name, known)}")
        given.append(Given(known[name], value, where(name)))
    return given


def _flattened(sections: Sections, where: Callable[[str], str]) -> Iterable[tuple[str, object]]:
    names = [section.name for section in msgspec.structs.fields(Config)]
    for section, table in sections.items():
        if section not in names:
            raise ConfigError(f"{where(section)} is not a section{_nearest(section, names)}")
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where(section)} is a section, not a value: write [{section}] and its settings below")
        yield from ((f"{section}.{key}", value) for key, value in table.items())


def _toml(path: str) -> dict[str, dict[str, object]]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _list_or_text(setting: Setting, text: str) -> object:
    if setting.type == list[str]:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _nearest(name: str, known: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f": did you mean {matches[0]}?" if matches else ""


# --- one value --------------------------------------------------------------------------------------------------------

_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_DURATIONS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_CHOICES = {"log.level": tuple(LEVELS), "log.format": tuple(FORMATS)}
_MAY_BE_ZERO = {  # each of these switches something off, or means "without limit"
    "broker.events_retention_ms",
    "broker.retention_bytes",
    "broker.retention_ms",
    "server.stop_timeout_ms",
    "store.catalog_slack_rows",
    "store.fill_ahead_bytes",
    "store.hot_bytes",
    "pulsar.auto_create_partitions",
}
_EXPECTED = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    list[str]: "a list of texts",
    str: "a text",
}


def _units(setting: Setting) -> dict[str, int]:
    words = setting.key.split("_")
    if "bytes" in words:
        return _SIZES
    return _DURATIONS if "ms" in words else {}


def _typed(setting: Setting, value: object, where: str) -> object:
    try:
        typed = msgspec.convert(_in_base_unit(setting, value), setting.type, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where} is {value!r}: it has to be {_expected(setting)}") from error
    obstacle = _obstacle(setting, typed)
    if obstacle:
        raise ConfigError(f"{where} is {value!r}: {obstacle}")
    return typed


def _in_base_unit(setting: Setting, value: object) -> object:
    """`"1.5MiB"` as bytes, `"72h"` as milliseconds; anything else as it is."""
    amount = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    units = _units(setting)
    if not amount or amount[2] not in units:
        return value
    return int(Decimal(amount[1]) * units[amount[2]])


def _expected(setting: Setting) -> str:
    units = _units(setting)
    if units:
        return f"a whole number, alone or with one of the units {', '.join(units)}"
    members = getattr(setting.type, "__members__", None)
    if members:
        return "one of " + ", ".join(str(member) for member in members.values())
    return _EXPECTED[setting.type]  # type: ignore[index]  # types are hashable


def _obstacle(setting: Setting, value: object) -> str:
    """Why a value of the right type is wrong all the same; empty when it is not."""
    choices = _CHOICES.get(setting.name)
    if choices and value not in choices:
        return f"it has to be one of {', '.join(choices)}"
    if setting.name in ("server.data", "server.host") and not value:
        return "it cannot be empty"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if setting.key.endswith("_port") and not 0 <= value <= PORT_MAX:
        return f"a port is between 0 (any that is free) and {PORT_MAX}"
    return _outside(setting, value)


def _outside(setting: Setting, value: float) -> str:
    if not value >= 0:  # also refuses what is not a number
        return "it cannot be negative"
    if value == 0 and isinstance(value, int) and not setting.key.endswith("_port") and setting.name not in _MAY_BE_ZERO:
        return "it cannot be 0"
    return ""
