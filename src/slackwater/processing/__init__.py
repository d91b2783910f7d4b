"""What each change does: operators behind one seam (`base`), and the host that runs them (`host`)."""
