"""Query operators: standing queries maintained incrementally, behind one seam (`base`) and run by a host (`host`)."""
