"""What `torch.utils.data._utils` has beside facula's."""
