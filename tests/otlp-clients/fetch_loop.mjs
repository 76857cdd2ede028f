// Calls addresses one after another with fetch in a loop that retries.
// usage: node --require ./telemetry.cjs fetch_loop.mjs BASE PATH...
import { trace } from '@opentelemetry/api';
import { setTimeout as sleep } from 'node:timers/promises';

const [base, ...paths] = process.argv.slice(2);
for (const path of paths) {
  await trace.getTracer('shop').startActiveSpan('work', async (span) => {
    for (let attempt = 1; attempt <= 4; attempt += 1) {
      const answer = await fetch(base + path, { signal: AbortSignal.timeout(5000) });
      await answer.arrayBuffer();
      if (![429, 503].includes(answer.status) || attempt === 4) break;
      const asked = answer.headers.get('retry-after');
      await sleep(asked ? Number(asked) * 1000 : 200 * 2 ** (attempt - 1));
    }
    span.end();
  });
}
await globalThis.stopTelemetry();
