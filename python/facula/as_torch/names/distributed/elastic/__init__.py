"""What programs started by torchrun import."""
