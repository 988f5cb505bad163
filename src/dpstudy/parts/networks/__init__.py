"""Networks and their activations, on images and on features."""
