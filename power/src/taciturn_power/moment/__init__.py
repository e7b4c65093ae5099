"""The cheapest dispatch of a moment: demands asked once, and what is told of it."""
