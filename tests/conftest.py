"""Settings of the whole suite: property tests draw the same examples every time, and never time out."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "postshift", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("postshift")
