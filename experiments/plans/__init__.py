"""What plans over aggregators are worth on recorded and made-up data: traces, settings, counting, experiments."""
