/** One registry of metrics per process, with Node's own figures in it. */

import { collectDefaultMetrics, Registry } from 'prom-client'

/** Services add theirs to it; /metrics prints it. */
export function createMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}
