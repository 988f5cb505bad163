"""The parts that runs are put together from."""
