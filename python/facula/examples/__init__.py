"""Programs that show facula at work: `python -m facula.examples.digits`, `...charlm`,
`...per_sample_gradients`."""
