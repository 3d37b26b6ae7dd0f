"""What `torch.fx` has beside facula's."""
