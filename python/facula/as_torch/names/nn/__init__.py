"""What `torch.nn` has beside facula's layers."""
