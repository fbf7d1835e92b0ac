"""Every case on every backend. A package, so that its modules may have the names of others and share plain_loops."""
