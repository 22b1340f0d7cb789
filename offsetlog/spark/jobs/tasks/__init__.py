"""What the tasks of jobs run on executors; like the source's readers it loads neither a server nor a store."""
