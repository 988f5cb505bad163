"""DP-SGD for readers who meet it for the first time: chapter 0, and the front page's picture."""
