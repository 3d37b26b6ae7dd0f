"""What `torch.utils.data` has beside facula's."""
