"""`slackwater token …`: make, list and revoke the tokens of a server; it may be running meanwhile."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.output import AsJson, console, plain, print_json, table
from slackwater.core.errors import StoreError
from slackwater.core.types import Instant, moment
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from slackwater.server.store import Store, Token

app = typer.Typer(help="Make, list and revoke the tokens of a server.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--folder", help="The folder of the server.")]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who it is for; what they register is theirs under this name.")],
    folder: Folder,
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", help="read, ingest or admin; may be repeated. read if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once: only a hash of it is kept."""
    from slackwater.server.store import Scope

    unknown = [scope for scope in scopes or () if scope not in list(Scope)]
    if unknown:
        raise StoreError(f"there is no scope {unknown[0]!r}; there are {', '.join(Scope)}")
    with _store(folder) as store:
        token, text = store.create_token(name, [Scope(scope) for scope in scopes or ("read",)], WallClock().now())
    if as_json:
        print_json(_plain(token) | {"token": text})
    else:
        print(text)


@app.command("list")
def list_tokens(folder: Folder, as_json: AsJson = False) -> None:
    """List the tokens, without their secrets."""
    with _store(folder) as store:
        tokens = store.tokens()
    if as_json:
        print_json([_plain(token) for token in tokens])
        return
    if not tokens:
        console.print("there are no tokens: the server listens on this machine only and asks for none")
        return
    shown = table("", "id", "name", "scopes", "created", "revoked")
    for token in tokens:
        shown.add_row(
            token.id, plain(token.name), ", ".join(sorted(token.scopes)), _time(token.created), _time(token.revoked)
        )
    console.print(shown)


@app.command("revoke")
def revoke(
    which: Annotated[str, typer.Argument(help="The token's id or name.")], folder: Folder, as_json: AsJson = False
) -> None:
    """Make a token useless; connections made with it are closed."""
    with _store(folder) as store:
        token = store.revoke_token(which, WallClock().now())
    if as_json:
        print_json(_plain(token) | {"revoked": True})
    else:
        console.print(f"token {token.id} of {plain(token.name)} is revoked")


def _store(folder: Path) -> "Store":
    from slackwater.server.store import STORE_FILE, Store

    return Store(folder / STORE_FILE)


def _plain(token: "Token") -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": sorted(token.scopes),
        "created": _time(token.created),
        "revoked": _time(token.revoked) or None,
    }


def _time(at: Instant | None) -> str:
    return "" if at is None else moment(at).isoformat(timespec="seconds")
