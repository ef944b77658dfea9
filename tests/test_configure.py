"""Settings from the file, the environment and the flags."""

import re
from pathlib import Path

import pytest

from penstock import configure
from penstock.config import Config
from penstock.errors import ConfigError
from penstock.model import Durability

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "configuration.md"


def load(toml: str = "", tmp_path: Path | None = None, env: dict[str, str] | None = None, **flags) -> Config:
    file = None
    if toml:
        file = tmp_path / "penstock.toml"
        file.write_text(toml, encoding="utf-8")
    return configure.load(str(file) if file else None, env or {}, flags)


def refusal(*args, **kwargs) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*args, **kwargs)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_without_anything_all_defaults_hold():
    assert load() == Config()


def test_later_layers_win(tmp_path):
    toml = "[server]\nhttp_port = 1\nbroker_port = 1\npulsar_port = 1"
    env = {"PENSTOCK_SERVER_HTTP_PORT": "2", "PENSTOCK_SERVER_BROKER_PORT": "2"}
    server = load(toml, tmp_path, env, server={"http_port": 3}).server
    assert (server.http_port, server.broker_port, server.pulsar_port) == (3, 2, 1)
    assert server.namesrv_port == Config().server.namesrv_port


def test_one_load_does_not_leak_into_the_next():
    assert load(server={"advertise": ["a"]}).server.advertise == ["a"]
    assert load().server.advertise == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("sync", Durability.SYNC), ("async", Durability.ASYNC)],
)
def test_durability_is_a_word(text, value):
    assert load(env={"PENSTOCK_STORE_DURABILITY": text}).store.durability is value


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("1B", 1), ("2KB", 2_000), ("128MiB", 128 * 2**20), ("1.5 KiB", 1536), ("0.1MB", 100_000)],
)
def test_sizes_have_units(text, value, tmp_path):
    assert load(env={"PENSTOCK_STORE_SEGMENT_BYTES": text}).store.segment_bytes == value
    assert load(f'[http]\nheader_bytes_max = "{text}"', tmp_path).http.header_bytes_max == value


@pytest.mark.parametrize(
    ("text", "value"), [("250", 250), ("250ms", 250), ("72h", 259_200_000), ("1.5s", 1_500), ("2d", 172_800_000)]
)
def test_durations_have_units(text, value):
    assert load(env={"PENSTOCK_BROKER_RETENTION_MS": text}).broker.retention_ms == value


def test_a_list_in_a_variable_is_separated_by_commas():
    assert load(env={"PENSTOCK_SERVER_ADVERTISE": "a:1, b ,"}).server.advertise == ["a:1", "b"]


def test_a_variable_set_to_nothing_is_not_set():
    assert load(env={"PENSTOCK_SERVER_HTTP_PORT": ""}) == Config()


def test_booleans():
    assert load(env={"PENSTOCK_SERVER_INSECURE": "true"}).server.insecure is True
    assert load(env={"PENSTOCK_SERVER_INSECURE": "0"}).server.insecure is False


def test_an_unknown_key_in_the_file_is_refused_with_the_nearest(tmp_path):
    sentence = refusal("[store]\nsegmnt_bytes = 1", tmp_path)
    assert "penstock.toml: store.segmnt_bytes is not a setting" in sentence
    assert "did you mean store.segment_bytes?" in sentence


def test_an_unknown_section_is_refused_with_the_nearest(tmp_path):
    assert "did you mean store?" in refusal("[stores]\nsegment_bytes = 1", tmp_path)


def test_a_value_where_a_section_belongs_is_refused(tmp_path):
    assert "store is a section" in refusal("store = 1", tmp_path)


def test_an_unknown_variable_is_refused_with_the_nearest():
    sentence = refusal(env={"PENSTOCK_STORE_DURABILTY": "sync"})
    assert "did you mean PENSTOCK_STORE_DURABILITY?" in sentence


def test_variables_of_others_are_left_alone():
    assert load(env={"PATH": "x", "PENSTOCKS": "x", "PENSTOCK_CRASH_ROUNDS": "x"}) == Config()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"PENSTOCK_STORE_DURABILITY": "maybe"}, "one of sync, async"),
        ({"PENSTOCK_SERVER_HTTP_PORT": "http"}, "a whole number"),
        ({"PENSTOCK_SERVER_HTTP_PORT": "65536"}, "between 0"),
        ({"PENSTOCK_SERVER_INSECURE": "maybe"}, "true or false"),
        ({"PENSTOCK_STORE_SEGMENT_BYTES": "1 parsec"}, "units B, KB"),
        ({"PENSTOCK_STORE_SEGMENT_BYTES": "5s"}, "units B, KB"),
        ({"PENSTOCK_STORE_SEGMENT_BYTES": "0"}, "cannot be 0"),
        ({"PENSTOCK_STORE_SEGMENT_BYTES": "-1"}, "negative"),
        ({"PENSTOCK_STORE_CLEAN_LIVE_SHARE_MAX": "nan"}, "negative"),
        ({"PENSTOCK_LOG_LEVEL": "loud"}, "one of debug, info"),
        ({"PENSTOCK_LOG_FORMAT": "xml"}, "one of text, json"),
    ],
)
def test_a_bad_value_is_refused_with_its_place_and_what_it_has_to_be(env, said):
    ((name, value),) = env.items()
    sentence = refusal(env=env)
    assert sentence.startswith(f"the variable {name} is {value!r}: ")
    assert said in sentence


def test_a_bad_flag_is_named_as_it_was_typed():
    assert refusal(server={"http_port": -1}).startswith("--http-port is -1")
    assert refusal(log={"level": "loud"}).startswith("--log-level is 'loud'")


@pytest.mark.parametrize("toml", ["[store", "x = \x00", "[store]\nqueues_max = [1"])
def test_a_file_that_is_not_toml_is_refused(toml, tmp_path):
    assert "is not TOML" in refusal(toml, tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    missing = str(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=re.escape(missing)):
        configure.load(missing, {}, {})


def test_zero_means_without_limit_where_it_says_so():
    assert load(broker={"retention_ms": 0}).broker.retention_ms == 0


def documented() -> dict[str, str]:
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (?:`([^`]*)`)? ?\|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def test_every_setting_is_documented_with_its_default():
    documents = documented()
    assert list(documents) == [setting.name for setting in configure.settings()]
    given = {setting.variable: documents[setting.name] for setting in configure.settings()}
    assert configure.load(None, given, {}) == Config()
    assert {name for name, text in documents.items() if not text} == {"server.advertise", "server.ready_file"}


def test_other_variables_are_documented():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in configure.OTHER_VARIABLES)


def test_other_variables_do_not_keep_a_broker_from_starting():
    assert load(env=dict.fromkeys(configure.OTHER_VARIABLES, "1")) == Config()


def test_every_variable_that_our_code_reads_is_known():
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("Makefile"), *ROOT.glob(".ci/run")]
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    read = set(re.findall(r'environ\.get\("(PENSTOCK_\w+)"', text)) | set(
        re.findall(r"(?:export |@)(PENSTOCK_\w+)=", text)
    )
    assert {"PENSTOCK_PURE", "PENSTOCK_CRASH_ROUNDS"} <= read <= configure.OTHER_VARIABLES
