"""What `torch.nn.utils` has beside facula's."""
