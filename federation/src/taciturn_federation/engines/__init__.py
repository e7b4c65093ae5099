"""What an engine runs beside a party: standard library, the engine, and nothing of taciturn.

These files are copied into the app of an engine (`taciturn_federation.apps`), whose environment
need not have taciturn.
"""
