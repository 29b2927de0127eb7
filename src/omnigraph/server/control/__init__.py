"""What keeps a server in order: admission, outcomes, figures, logs, its end and its new configuration."""
