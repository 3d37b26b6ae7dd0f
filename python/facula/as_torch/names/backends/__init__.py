"""What `torch.backends` has beside facula's devices."""
