"""Agents on machines of their own: parties of a run that exchange signed messages."""
