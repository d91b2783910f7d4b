"""Command line: `slackwater …`, one file a command; each is thin and leaves the work to the rooms."""

import os
import sys
from typing import Annotated

import typer

from slackwater import __version__
from slackwater.cli import aggregate, demo, doctor, learn, load, log, output, replay, serve, sql, token, up
from slackwater.core.errors import SlackwaterError
from slackwater.deployment.lifeline import hold_lifeline

app = typer.Typer(
    name="slackwater",
    help="Standing queries over fast-changing data, each within the error its user allows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("replay")(replay.replay)
app.command("load")(load.load)
app.command("learn")(learn.learn)
app.command("sql")(sql.sql)
app.command("serve")(serve.serve)
app.command("aggregate")(aggregate.aggregate)
app.add_typer(token.app, name="token")
app.command("up")(up.up)
app.command("up-feed", hidden=True)(up.run_feed)
app.command("up-pipeline", hidden=True)(up.run_pipeline)
app.command("up-spark", hidden=True)(up.run_spark)

app.add_typer(log.app, name="log")
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    if os.environ.get("SLACKWATER_EXTENSIONS"):
        from slackwater import extensions

        extensions.load(extensions.named())


def main() -> None:
    """Run a command; an error of Slackwater ends it with exit code 2 and a sentence, not a traceback."""
    hold_lifeline()
    try:
        app()
    except SlackwaterError as error:
        output.complain(error, as_json="--json" in sys.argv)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone (`slackwater log … | head`): there is nowhere left to write to.
        sys.stderr.close()
        sys.exit(141)
