"""mechexp: testing claims about attention-head circuits, instead of only making them."""

__version__ = "0.1.0"
