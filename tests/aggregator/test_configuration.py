"""Configuration: what is read, and every mistake with its place."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.aggregator import configuration
from slackwater.aggregator.base import Item
from slackwater.aggregator.configuration import Plan, plan_of, read_part
from slackwater.core.errors import SlackwaterError
from slackwater.deployment.configuration import read_deployment

UPSTREAM = """
[[upstreams]]
name = "x"
nodes = ["http://127.0.0.1:1"]
[[upstreams.items]]
table = "t"
value = "v"
keys = ["a", "b"]
within = 0.5
"""
SOURCE = """
[[sources]]
name = "bank"
url = "http://127.0.0.1:2/rates"
define = "CREATE TABLE rates (pair TEXT PRIMARY KEY, rate DOUBLE)"
every = 2
"""


def plan(tmp_path: Path, text: str) -> Plan:
    file = tmp_path / "aggregator.toml"
    file.write_text(text)
    return plan_of(read_part(file), "here", tmp_path)


def test_upstreams_and_sources_are_read(tmp_path: Path) -> None:
    made = plan(tmp_path, UPSTREAM + SOURCE)
    assert made.upstreams[0].items == (Item("x", "t", "v", ("a",), 0.5), Item("x", "t", "v", ("b",), 0.5))
    assert made.sources[0].schema.name == "rates"
    assert made.mirrored_items().polled == {"rates": "bank"}
    assert made.mirrored_items().mirrored("t")


def test_the_example_of_the_module_is_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    assert configuration.__doc__ is not None
    made = plan(tmp_path, configuration.__doc__.partition("\n")[2])
    assert (made.upstreams[0].token, len(made.upstreams[0].items), len(made.sources)) == ("secret", 2, 1)


def test_keys_of_every_type_and_of_several_columns(tmp_path: Path) -> None:
    keys = '[["a", 1, 2.5, true, 1970-01-01T00:00:01Z]]'
    made = plan(tmp_path, UPSTREAM.replace('["a", "b"]', keys))
    assert made.upstreams[0].items[0].key == ("a", 1, 2.5, True, 1_000_000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at least one of"),
        ("lease = ", "not TOML"),
        (UPSTREAM.replace("within = 0.5", "within = -1"), r"\$\.upstreams\[0\]\.items\[0\]\.within"),
        (UPSTREAM.replace("within", "wthin"), "unknown field `wthin`"),
        (UPSTREAM + UPSTREAM, "x is the name of two"),
        (UPSTREAM.replace('"b"', '"a"'), "asked for twice for the key"),
        (UPSTREAM + UPSTREAM.replace('"x"', '"y"'), "asked for at two upstreams"),
        (UPSTREAM.replace('"b"', "{}"), "is no part of a key"),
        (UPSTREAM.replace('"b"', "1970-01-01"), "is no part of a key"),
        (UPSTREAM.replace('["a", "b"]', "[]"), "length >= 1"),
        (UPSTREAM.replace('name = "x"', 'name = "x"\ntoken_file = "none"'), "the token of x cannot be read"),
        (SOURCE.replace("every = 2", "every = 0"), "every"),
        (SOURCE.replace("CREATE TABLE rates", "CREATE"), "source bank: line 1"),
        (SOURCE.replace("CREATE TABLE rates (pair TEXT PRIMARY KEY, rate DOUBLE)", "SHOW TABLES"), "CREATE TABLE"),
        (UPSTREAM + SOURCE.replace("rates (", "t ("), "table t comes from two places"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SlackwaterError, match=told):
        plan(tmp_path, text)


def test_too_many_items_are_refused(tmp_path: Path) -> None:
    text = UPSTREAM.replace('["a", "b"]', str(list(range(5000))))
    second = text.replace('"x"', '"y"').replace('"t"', '"u"')
    with pytest.raises(SlackwaterError, match="10000 items are more than the 8192"):
        plan(tmp_path, text + second)


def test_a_part_of_a_deployment_is_found_by_name(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(UPSTREAM.replace("[[upstreams", "[[aggregators.near.upstreams"))
    assert read_part(file, "near").upstreams[0].name == "x"
    with pytest.raises(SlackwaterError, match=r"no part \[aggregators.far\]"):
        read_part(file, "far")
    with pytest.raises(SlackwaterError, match="cannot be read"):
        read_part(tmp_path / "nothing.toml")


def test_the_examples_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "aggregator.md"
    alone, pulled, deployed = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    made = plan(tmp_path, alone)
    assert (len(made.upstreams[0].items), len(made.sources)) == (3, 1)
    [pull] = plan(tmp_path, pulled).pulls
    assert (pull.part.keys, pull.part.costs) == (["IBM", "MSFT", "SAP"], {"SAP": 3})
    file = tmp_path / "slackwater.toml"
    file.write_text(deployed)
    assert list(read_deployment(file).aggregators) == ["near"]
    assert plan_of(read_part(file, "near"), "here", tmp_path).upstreams[0].nodes == ("server",)


def test_the_command_tells_a_mistake_as_a_sentence_and_as_json(tmp_path: Path) -> None:
    file = tmp_path / "aggregator.toml"
    file.write_text("sources = 3")
    command = [sys.executable, "-m", "slackwater", "aggregate", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    told = json.loads(done.stdout)
    assert told["error"] == "SlackwaterError"
    assert "$.sources" in told["message"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('value = "price"', 'value = "symbol"'), "DOUBLE column that is no key"),
        (("{key}", "x"), "needs {key} once"),
        (('keys = ["IBM"', 'keys = ["MSFT"'), "twice"),
        (("SAP = 3", "XX = 3"), "among the costs alone"),
    ],
)
def test_mistakes_in_pulls_are_told(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "aggregator.md"
    _, pulled, _ = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert change[0] in pulled
    with pytest.raises(SlackwaterError, match=re.escape(told)):
        plan(tmp_path, pulled.replace(*change, 1))
    with pytest.raises(SlackwaterError, match="asked for at two sources"):
        plan(tmp_path, pulled + pulled.replace('name = "tape"', 'name = "wire"'))
