"""The library that people import: connect, subscribe, ask once."""
