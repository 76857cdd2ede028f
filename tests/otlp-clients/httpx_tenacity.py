"""Calls addresses one after another with httpx, retried by tenacity.

usage: httpx_tenacity.py BASE PATH...
"""

import sys

import httpx
from opentelemetry import trace
from tenacity import Retrying, retry_if_result, stop_after_attempt


def promised(state):
    """What the answer asks for, else 0.2 s, doubled each time."""
    asked = state.outcome.result().headers.get("retry-after")
    return float(asked) if asked else 0.2 * 2 ** (state.attempt_number - 1)


base, *paths = sys.argv[1:]
policy = Retrying(
    retry=retry_if_result(lambda answer: answer.status_code in (429, 503)),
    wait=promised,
    stop=stop_after_attempt(4),
    retry_error_callback=lambda state: state.outcome.result(),
)
with httpx.Client(timeout=5) as client:
    for path in paths:
        with trace.get_tracer("shop").start_as_current_span("work"):
            policy(client.get, base + path)
