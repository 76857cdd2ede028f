// OpenTelemetry for Node, as its documentation starts it; where to send is in OTEL_… variables.
'use strict';
const { NodeSDK } = require('@opentelemetry/sdk-node');
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');
const { UndiciInstrumentation } = require('@opentelemetry/instrumentation-undici');

const responseHeaders = ['retry-after', 'date', 'server'];
const sdk = new NodeSDK({
  instrumentations: [
    new HttpInstrumentation({ headersToSpanAttributes: { client: { responseHeaders } } }),
    new UndiciInstrumentation({ headersToSpanAttributes: { responseHeaders } }),
  ],
});
sdk.start();
// So that modules that import it get it instrumented.
require('node:http');
globalThis.stopTelemetry = () => sdk.shutdown();
