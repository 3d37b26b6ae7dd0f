"""Of records: ops.yaml read into the model."""
