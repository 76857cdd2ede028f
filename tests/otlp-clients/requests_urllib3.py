"""Calls addresses one after another with requests, whose adapter retries by urllib3's Retry.

usage: requests_urllib3.py BASE PATH...
"""

import sys

import requests
from opentelemetry import trace
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

base, *paths = sys.argv[1:]
policy = Retry(total=3, backoff_factor=0.2, status_forcelist=[429, 503])
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=policy))
for path in paths:
    with trace.get_tracer("shop").start_as_current_span("work"):
        try:
            session.get(base + path, timeout=5)
        except requests.exceptions.RetryError:
            pass
