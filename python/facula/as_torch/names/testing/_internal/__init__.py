"""`torch.testing._internal`: the part that tests of packages use."""
