"""Dissemination: the message protocol between node and client, and transports under one contract."""
