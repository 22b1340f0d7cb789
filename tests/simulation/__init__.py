"""Three replicas on the product's own code, under a scheduler that owns time, network and disk, by a seed."""
