"""Published triggers that say when labels are made anew."""
