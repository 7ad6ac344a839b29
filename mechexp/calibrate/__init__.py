"""Calibration: how often the labels are right, on models whose circuits are known."""
