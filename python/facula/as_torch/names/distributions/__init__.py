"""What `torch.distributions` has beside facula's."""
