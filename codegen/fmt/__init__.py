"""The one form of ops.yaml: `comments` and `tree` read it, `texts` and `layout` write it anew."""
