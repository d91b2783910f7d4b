"""`python -m slackwater` is `slackwater`."""

from slackwater.cli import main

if __name__ == "__main__":
    main()
