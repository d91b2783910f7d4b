"""An aggregator as a child process."""

from slackwater.deployment.process import ServerProcess


class AggregatorProcess(ServerProcess):
    """`slackwater aggregate FOLDER …` in a process of its own; arguments as those of the command."""

    command = "aggregate"
