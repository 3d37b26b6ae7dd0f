"""Ways of sending gradients."""
