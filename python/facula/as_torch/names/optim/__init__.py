"""What `torch.optim` has beside facula's."""
