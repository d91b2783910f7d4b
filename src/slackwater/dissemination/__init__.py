"""Who gets which message, and how it is carried: the messages themselves, and transports under one contract."""
