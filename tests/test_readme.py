"""The front page tells what was measured, nothing else."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    return found


def figure(row: str) -> float:
    match = re.search(rf"^\| {re.escape(row)} \| ([\d.]+) ", README, re.MULTILINE)
    assert match, row
    return float(match[1])


def test_rates_of_the_log() -> None:
    by_batch = {one["rows_a_batch"]: one["with_encoding"] for one in result("log_append")["figures"]}
    told = figure("updates appended and flushed to disk, batches of 10 000, one thread")
    assert told == round(by_batch[10_000] / 1e6, 1)
    assert figure("the same, batches of 1 000") == round(by_batch[1_000] / 1e6, 1)


def test_rates_of_admission() -> None:
    rates = result("admission")["rows_a_second"]
    assert figure("rows through admission, typed columns, one thread") == round(rates["typed columns"] / 1e6, 1)
    assert figure("rows through admission, text columns") == round(rates["text columns"] / 1e6, 1)


def test_rates_beside_others() -> None:
    def row(start: str) -> str:
        return next(line for line in README.splitlines() if line.startswith(f"| {start}"))

    sums = result("sums_beside_rivals")
    for size, start, digits in ((10_000, "processor time of a batch of 10 000", 1), (1, "the same for a single", 3)):
        figures = sums[f"uniform updates, batches of {size}"]
        own, best = (
            figures["slackwater_milliseconds"],
            min(figures["scipy_milliseconds"], figures["numba_milliseconds"]),
        )
        assert f"| {own:.{digits}f} ms and {best:.{digits}f} ms |" in row(start)
    rates = result("ingest")["figures"]
    own, copied = rates["slackwater"]["batches of 1000, JSON"], rates["PostgreSQL"]["batches of 1000, COPY"]
    told = f"| {own['rows_a_second'] / 1000:.0f} and {copied['rows_a_second'] / 1000:.0f} thousand a second |"
    assert told in row("rows made durable by REST, batches of 1 000")
    own, other = (rates[name]["single rows, 1 sender"]["rows_a_second"] for name in ("slackwater", "PostgreSQL"))
    assert f"| {own} and {other} a second |" in row("the same, single rows of one sender")


def test_rates_of_nodes() -> None:
    sums = result("bounded_aggregates")["uniform updates, batches of 1000"]["updates_a_second"]
    told = figure("updates a second through 100 000 bounded sums, batches of 1 000, one core")
    assert told == round(sums / 1e6, 2)
    times = result("live_subscriptions")["live"]["ingest_to_client_ms"]
    row = "ingest to client with 10 000 live subscriptions over 2 000 connections, median"
    assert figure(row) == round(times["p50"])
    assert figure("the same, 99th percentile") == round(times["p99"])


def test_rates_of_the_spark_host_and_of_nats() -> None:
    host = result("spark_host")["1 executors"]
    large = figure("updates a second through 100 000 bounded sums on one Spark executor, large batches")
    assert large == round(host["batches of 65536"]["updates_a_second"] / 1e6, 2)
    assert figure("a batch of 1 000 updates through them, median") == round(host["batches of 1000"]["p50_ms"])
    times = result("live_subscriptions_nats")["live"]["ingest_to_client_ms"]
    row = "ingest to client with 10 000 live subscriptions through NATS, 99th percentile"
    assert figure(row) == round(times["p99"])


def test_rates_of_the_pipeline() -> None:
    batches = result("pipeline_batches")
    assert figure("an empty micro-batch of the Spark pipeline, median") == round(
        batches["empty"]["micro_batch"]["p50_ms"]
    )
    assert figure("1 000 rows through Spark into latest and history, median") == round(
        batches["1000_rows"]["micro_batch"]["p50_ms"]
    )
    learnt = result("learn")["1e7_rows"]["rows_a_second"]
    assert figure("rows a second that `learn` takes in on Spark, 100 items") == round(learnt / 1e6, 1)


def test_time_of_import() -> None:
    told = figure("`import slackwater` in a fresh process, starting Python included")
    assert told == round(result("import_time")["process"]["slackwater"]["median_s"] * 1000)


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} → {target}"


def test_figures_of_planning_and_joins() -> None:
    pulls = figure(
        "pulls that sums over request-only sources need, of those of the best published algorithm at equal fidelity"
    )
    assert pulls == round(result("pulling")["held-out half"]["pulls"]["ours_to_the_papers_best_geometric_mean"], 2)
    [largest] = [one for one in result("push_pull")["one_attribute"] if one["queries"] == 1_000_000]
    row = "exact push or pull labels of a million queries and a million updates, one attribute"
    assert figure(row) == round(largest["seconds"], 1)
    [million] = [one for one in result("standing_joins_queries")["band_joins"] if one["queries"] == 1_000_000]
    row = (
        "rows a second of one core's processor time to the standing joins they affect, "
        "a million band joins over a million rows"
    )
    assert figure(row) == round(million["rows_a_second"] / 1e6, 2)
