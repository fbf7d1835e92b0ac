"""The core, in pure integers. A package, so that its modules may have the names of others."""
