"""What `torch.nn.modules` has beside facula's."""
