"""What `torch.distributed.tensor` has beside facula's."""
