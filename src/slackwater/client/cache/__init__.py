"""Client cache: the table regions that are pushed to a client, and queries answered from them."""
