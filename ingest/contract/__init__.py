"""What Django and a Spark driver say to each other, as values."""
