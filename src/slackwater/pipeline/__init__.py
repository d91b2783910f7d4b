"""What runs on Spark, and the Java it runs on."""
