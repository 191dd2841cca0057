"""What was asked for: the command line, the study file and the host, made into one study."""
