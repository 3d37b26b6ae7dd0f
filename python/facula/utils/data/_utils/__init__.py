"""What the loader is made of: collation, fetching, and worker processes."""
