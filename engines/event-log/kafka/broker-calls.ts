/**
 * Changes how one kind of call to a kafkajs broker is encoded or decoded; everything else of the broker remains as
 * it is.
 */

import type { Broker } from 'kafkajs'

/** A request that is about to be sent, and how its answer will be read; as kafkajs has them. */
export interface Exchange {
  request: { apiName: string; apiVersion: number; encode(): Promise<unknown> }
  response: { decode(bytes: Buffer): Promise<unknown>; parse(decoded: unknown): Promise<unknown> }
}

interface CalledBroker {
  fetch(request: unknown): Promise<unknown>
  produce(request: unknown): Promise<unknown>
  lookupRequest(key: number, versions: unknown): (parts: never) => Exchange
}

/** `change` sees the exchange of each such call, and the parts that it was made of. */
export function changeExchanges<P>(
  broker: Broker,
  call: 'fetch' | 'produce',
  change: (exchange: Exchange, parts: P) => Exchange,
): void {
  // The types of kafkajs describe its public interface, and these calls are not in it.
  const original = broker as unknown as CalledBroker
  const called = original[call]
  const lookupRequest = (key: number, versions: unknown) => {
    const exchangeOf = original.lookupRequest(key, versions)
    return (parts: P) => change(exchangeOf(parts as never), parts)
  }
  // Only this call sees the other look-up; everything else of the broker is as it was.
  const changed = Object.create(original, { lookupRequest: { value: lookupRequest } })
  original[call] = (request) => called.call(changed, request)
}
