"""Which sums are planned; what is counted; what is read from a file."""

from pathlib import Path

import pytest

from slackwater.core.errors import SlackwaterError
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType
from slackwater.deployment.configuration import read_deployment
from slackwater.hosting.binder import Binder
from slackwater.server.planners.network.configuration import read_network
from slackwater.server.planners.network.plannable import plannable
from slackwater.server.planners.network.watch import Watch
from slackwater.statistics import Statistics, Ticks

QUOTES = TableSchema(
    "quotes",
    (
        Column("symbol", DataType.TEXT, nullable=False),
        Column("price", DataType.DOUBLE),
        Column("volume", DataType.BIGINT),
    ),
    ("symbol",),
)
JOINED = "FROM quotes JOIN (VALUES ('B', 2), ('A', 0.5), ('C', 0)) AS p(symbol, w) USING (symbol)"


def planned(sql: str) -> list[tuple[object, float]] | None:
    found = plannable(Binder().bind(f"SUBSCRIBE SELECT {sql}", {"quotes": QUOTES})[0], QUOTES)
    return None if found is None else [(weight.key[0], weight.factor) for weight in found.weights or ()]


def test_sums_of_listed_items_are_planned() -> None:
    assert planned(f"SUM(w * price) {JOINED} WITHIN 3") == [("A", 0.5), ("B", 2.0)]
    assert planned("SUM(price) FROM quotes WHERE symbol IN ('B', 'A') WITHIN 3") == [("A", 1.0), ("B", 1.0)]
    assert planned(f"SUM(w * price) {JOINED} WHERE symbol <> 'A' WITHIN 3") is None, "one item is left"


@pytest.mark.parametrize(
    "sql",
    [
        "AVG(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 3",
        "SUM(price) FROM quotes WHERE symbol = 'A' WITHIN 3",
        "SUM(price) FROM quotes WITHIN 3",
        "SUM(price) FROM quotes WHERE symbol IN ('A', 'B')",
        "SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 3 FIDELITY 95%",
        "SUM(price) FROM quotes WHERE symbol IN ('A', 'B') AND volume > 3 WITHIN 3",
        "symbol FROM quotes WHERE symbol IN ('A', 'B')",
        "SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 1e300",
        "SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 1e-200",
        f"SUM(w * price) {JOINED.replace('0.5', '1e200')} WITHIN 3",
        f"SUM(w * price) {JOINED.replace('0.5', '1e-200')} WITHIN 3",
    ],
)
def test_everything_else_is_kept_by_the_node(sql: str) -> None:
    assert planned(sql) is None


def test_messages_are_counted_in_windows_in_which_all_were_heard() -> None:
    watch = Watch([3600.0, 0.0], window=10_000_000, now=0)
    watch.saw(0, 1, 100)
    watch.saw(1, 1, 0)
    watch.saw(0, 1, 108)
    watch.saw(1, 1, 1)
    watch.pass_time(9_000_000)
    assert (watch.windows, watch.measured) == (0, None)
    watch.pass_time(10_000_000)
    assert (watch.windows, watch.counted, watch.time) == (1, [8, 1], 10_000_000)
    assert watch.measured == pytest.approx(9 * 360)
    assert not watch.drifted
    watch.saw(0, 1, 500)
    watch.pass_time(20_000_000)
    assert (watch.windows, watch.counted) == (2, [8, 1]), "the other part was not heard of"
    watch.saw(0, 2, 7)
    watch.saw(1, 1, 1)
    watch.pass_time(30_000_000)
    assert watch.counted == [15, 1], "a process that began again counts from nothing"
    assert watch.expected_of(0, 3600.0) == pytest.approx((15.0, 20.0))


def test_a_network_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    (tmp_path / "token").write_text("secret\n")
    file.write_text(
        'window = 2\nunheld = "nobody"\n[[aggregators]]\nname = "near"\nnodes = ["http://10.0.0.7:8410"]\n'
        'token_file = "token"\n[[aggregators]]\nname = "far"\nnodes = ["far"]\n'
    )
    found = read_network(file)
    assert [(one.name, one.nodes, one.token) for one in found.aggregators] == [
        ("near", ("http://10.0.0.7:8410",), "secret"),
        ("far", ("far",), None),
    ]
    assert (found.rules.window, found.rules.unheld, found.poll) == (2_000_000, False, 0.5)


def test_what_was_learnt_is_where_planning_begins(tmp_path: Path) -> None:
    statistics = Statistics("quotes", "price", period=1_000_000)
    times = [second * 1_000_000 for second in range(4) for _ in range(2)]
    statistics.update(Ticks.of(["IBM", "SAP"] * 4, times, [1.0, 9.0, 2.0, 7.0, 3.0, 5.0, 4.0, 3.0]))
    (tmp_path / "learnt").mkdir()
    statistics.write(tmp_path / "learnt" / "quotes.price.parquet")
    Statistics("quotes", "volume").write(tmp_path / "learnt" / "quotes.volume.parquet")
    file = tmp_path / "network.toml"
    file.write_text('statistics = "learnt"\n[[aggregators]]\nname = "a"\nnodes = ["a"]\n')
    found = read_network(file).movement.dynamics(("quotes", "price"), ("SAP", "IBM", "ORCL"))
    assert found.sumdiff[0] == pytest.approx(2 * found.sumdiff[1])
    assert found.sumdiff[2] == pytest.approx((found.sumdiff[0] + found.sumdiff[1]) / 2), "of which nothing is known"
    assert found.similarity[0, 1] == pytest.approx(-1.0)
    assert found.similarity[0, 2] == 0.0


def test_the_aggregators_of_a_deployment_are_known_by_themselves(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text("[network]\nlost_after = 3\n[aggregators.near]\nport = 8410\n[aggregators.far]\nport = 8411\n")
    assert read_deployment(file).network is not None
    found = read_network(file)
    assert [(one.name, one.nodes) for one in found.aggregators] == [("near", ("near",)), ("far", ("far",))]
    assert found.rules.lost_after == 3_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("window = 2", "no network"),
        ('windw = 2\n[[aggregators]]\nname = "a"\nnodes = ["a"]', "windw"),
        ('[[aggregators]]\nname = "a"\nnodes = ["a"]\n' * 2, "two aggregators"),
        ('statistics = "none"\n[[aggregators]]\nname = "a"\nnodes = ["a"]', "slackwater learn"),
        ('[[aggregators]]\nname = "a"\nnodes = ["a"]\ntoken_file = "none"', "token of a"),
        ("= 3", "not TOML"),
    ],
)
def test_mistakes_in_a_file_are_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "network.toml"
    file.write_text(text)
    with pytest.raises(SlackwaterError, match=said):
        read_network(file)
    with pytest.raises(SlackwaterError, match="cannot be read"):
        read_network(tmp_path / "missing.toml")


def test_a_network_without_aggregators_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text("[server]\n[network]\n")
    with pytest.raises(SlackwaterError, match="made of aggregators"):
        read_deployment(file)
