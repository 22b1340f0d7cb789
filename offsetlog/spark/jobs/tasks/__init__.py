"""The jobs' code that runs on executors; like the source's readers it loads neither a server nor a store."""
