"""What `torch.testing` has beside `facula.testing`."""
