"""The storage plugin: a broker process imports it to keep its consumers' positions."""
