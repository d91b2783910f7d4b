"""The HTTP interface: `operation` says what a request is, `routes` lists them, `app` serves them."""
