"""What `torch.utils` has beside facula's."""
