"""Black-box tests against what real Kafka brokers said about the directories they wrote."""
