"""Push/pull labelling: for each region of the data, updates pushed to a client or queries pulled by it."""
