"""Writes down what exporters send, one file a request, in the folder of samples.

usage: sink.py PORT FOLDER PREFIX     (then run a client with OTEL_EXPORTER_OTLP_ENDPOINT)
"""

import gzip
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, folder, prefix = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
counts = {}


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers["content-length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def do_POST(self):
        body = self.body()
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        signal = self.path.rsplit("/", 1)[1]
        kind = "json" if "json" in self.headers["content-type"] else "pb"
        counts[signal] = counts.get(signal, 0) + 1
        (folder / f"{prefix}-{signal}-{counts[signal]}.{kind}").write_bytes(body)
        self.send_response(200)
        self.send_header("content-type", self.headers["content-type"])
        self.send_header("content-length", "0" if kind == "pb" else "2")
        self.end_headers()
        self.wfile.write(b"" if kind == "pb" else b"{}")

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Sink).serve_forever()
