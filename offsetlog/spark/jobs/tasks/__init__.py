"""The code of jobs that runs on executors.  Like the readers of the source, it imports neither a server nor a store."""
