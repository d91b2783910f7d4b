"""Push or pull, region by region: which updates a client is sent, and which data it has to ask for."""
