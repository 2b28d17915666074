"""queries/batches."""
