/** Fires events of agents to the webhook relay, without an agent's key. */

import { addressOf, defaultWebhookUrl } from './settings.ts'
import { type Call, createTransport, type Transport, type TransportOptions } from './transport.ts'
import type { FireAnswer, FiredEvent, FireOptions } from './types.ts'

export interface WebhookClientOptions extends Omit<TransportOptions, 'baseUrl'> {
  /**
   * The relay: `http://127.0.0.1:9090` (the default), or `host:port` as in WEBHOOK_GATEWAY. `webhook_url` in
   * run/addresses.json below the data directory names it, too.
   */
  webhookUrl?: string | undefined
}

export interface WebhookClient {
  /**
   * Resolves once the log holds every delivery; nothing is delivered yet then. Repeated after a fault: receivers drop what
   * comes twice by its idempotency key. Throws ProblemError, for example `unknown_target`.
   */
  fire(event: FiredEvent, options?: FireOptions): Promise<FireAnswer>
  /** Ends the calls under way; later ones fail at once. */
  close(): Promise<void>
}

/** Builds a client of the relay alone; it needs no key, because the relay listens to its own machine only. */
export function createWebhookClient({ webhookUrl, ...options }: WebhookClientOptions = {}): WebhookClient {
  const transport = createTransport({ ...options, baseUrl: addressOf(webhookUrl || defaultWebhookUrl) })
  return {
    fire: (event, given) => fireOver(transport, event, given),
    close: async () => transport.close(),
  }
}

export function fireOver(
  transport: Transport,
  event: FiredEvent,
  { targets, signal }: FireOptions = {},
): Promise<FireAnswer> {
  const call: Call = {
    method: 'POST',
    path: 'api/v1/webhooks/fire',
    // An empty list is sent as one, to be refused: it must not mean all.
    query: { targets: targets?.length === 0 ? '' : targets },
    // Made once: a repeated fire is the same event.
    body: { ...event, result: event.result ?? {}, ts: event.ts ?? Math.floor(Date.now() / 1_000) },
    repeatable: true,
    ...(signal ? { signal } : {}),
  }
  return transport.call<FireAnswer>(call)
}
