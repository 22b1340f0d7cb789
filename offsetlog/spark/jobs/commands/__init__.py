"""The commands of the jobs: arguments, what is printed, exit codes; one definition, however a job is started."""
