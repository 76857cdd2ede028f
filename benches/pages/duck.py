"""DuckDB beside the service: loads the same rows and times questions in SQL.

Started by the benchmark with the path of a database file. Reads one JSON command a line from
standard input and answers each with one line of JSON:

- {"load": FILE}: adds the rows of a CSV file to the table `events`.
- {"runs": N, "sql": [TEXT, ...]}: runs all statements one after the other and reads every row of
  their answers, once to warm up and then N times; gives the milliseconds of each time.
- {"value": TEXT}: the single number that a statement gives.
"""

import json
import sys
import time

import duckdb

# One wide table in the order of arrival. Words that repeat are kept as a dictionary by DuckDB.
COLUMNS = {
    "event_id": "VARCHAR", "operation_id": "VARCHAR", "attempt": "INTEGER",
    "occurred_at": "BIGINT", "received_at": "BIGINT", "duration_ms": "BIGINT",
    "vantage": "VARCHAR", "service": "VARCHAR", "upstream": "VARCHAR", "environment": "VARCHAR",
    "instance": "VARCHAR", "retry_layer": "VARCHAR", "method": "VARCHAR", "route": "VARCHAR",
    "status": "SMALLINT", "error": "VARCHAR", "outcome": "VARCHAR", "retry_after": "VARCHAR",
    "promised_ms": "BIGINT", "computed_delay_ms": "BIGINT", "delay_source": "VARCHAR",
    "request_id": "VARCHAR", "ray_id": "VARCHAR", "trace_id": "VARCHAR", "span_id": "VARCHAR",
    "key_hash": "VARCHAR", "key_kind": "VARCHAR", "client_address_hash": "VARCHAR",
    "account_hash": "VARCHAR", "idempotency_key_hash": "VARCHAR", "body_hash": "VARCHAR",
    "attempts_max": "INTEGER", "timeout_ms": "BIGINT", "deadline_ms": "BIGINT",
    "headers": "VARCHAR", "content_type": "VARCHAR", "error_code": "VARCHAR",
    "body_sample": "VARCHAR", "count": "INTEGER", "returned_by": "VARCHAR", "layer": "VARCHAR",
    "certainty": "VARCHAR", "confidence": "DOUBLE", "limited": "BOOLEAN",
    "limit_type": "VARCHAR", "reached_origin": "VARCHAR",
}
TIMES = ("occurred_at", "received_at")


def main():
    base = duckdb.connect(sys.argv[1])
    base.execute("SET threads = 2")
    of_table = ", ".join(
        f"{name} {'TIMESTAMP' if name in TIMES else kind}" for name, kind in COLUMNS.items())
    base.execute(f"CREATE TABLE IF NOT EXISTS events ({of_table})")
    picked = ", ".join(
        f"make_timestamp_ms({name})" if name in TIMES else name for name in COLUMNS)
    kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
    for line in sys.stdin:
        command = json.loads(line)
        if "load" in command:
            base.execute(
                f"INSERT INTO events SELECT {picked} FROM read_csv(?, auto_detect = false, "
                f"header = false, delim = ',', quote = '\"', escape = '\"', nullstr = '', "
                f"allow_quoted_nulls = false, new_line = '\\n', parallel = false, "
                f"columns = {{{kinds}}})", [command["load"]])
            answer = {}
        elif "value" in command:
            answer = {"value": base.execute(command["value"]).fetchone()[0]}
        else:
            answer = {"ms": []}
            for run in range(command["runs"] + 1):
                begun = time.perf_counter()
                for text in command["sql"]:
                    base.execute(text).fetchall()
                if run > 0:
                    answer["ms"].append((time.perf_counter() - begun) * 1000)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
