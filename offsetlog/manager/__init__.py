"""The storage plugin: what a broker process imports to keep its consumers' positions."""
