"""What a run is made of: one concept a file, each part at once written down and acting."""
