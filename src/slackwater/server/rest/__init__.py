"""REST interface: `operation` describes a request, `routes` lists them, `app` serves them."""
