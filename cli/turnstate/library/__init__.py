"""What programs call: the same history as the commands', as functions and frozen records."""
