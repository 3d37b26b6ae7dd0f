"""What `torch._functorch` has beside facula's."""
