"""The cheapest dispatches of a day: demands of every step asked once, and what is told of them."""
