"""What is known of the packages that are installed."""
