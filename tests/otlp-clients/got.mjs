// Calls addresses one after another with got, which retries by itself.
// usage: node --require ./telemetry.cjs got.mjs BASE PATH...
import { trace } from '@opentelemetry/api';
import got from 'got';

const [base, ...paths] = process.argv.slice(2);
for (const path of paths) {
  await trace.getTracer('shop').startActiveSpan('work', async (span) => {
    await got(base + path, { retry: { limit: 3 }, timeout: { request: 20000 }, throwHttpErrors: false });
    span.end();
  });
}
await globalThis.stopTelemetry();
