"""The storage plugin, which a broker process imports to keep its consumers' positions."""
