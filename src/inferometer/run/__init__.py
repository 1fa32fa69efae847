"""The composition: one point, a sweep of points, in real time or in virtual time."""
