"""Training: row sources, batches, the one training loop, pretraining and stopping rules."""
