"""The client's cache: the regions of tables that are pushed to it, and questions answered from them."""
