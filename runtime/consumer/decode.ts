/** A stored record's message; a record that cannot be decoded is a fault of its own, a registry that is away is not. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import type { AnyMessage, RunnerHost } from './runner.ts'

/** `message` or `fault`; neither when the partition was over before the registry came back. */
export interface Decoded {
  message: AnyMessage | null
  fault: string
}

/** At once when the codec answers at once, which it does for all but the first records of a schema. */
export function decodeRecord(host: RunnerHost, record: StoredRecord): Decoded | Promise<Decoded> {
  try {
    const message = host.group.codec.decode(host.group.topic, record)
    if (message instanceof Promise) return message.then(decoded, (error) => failed(host, record, error))
    return { message: message as AnyMessage, fault: '' }
  } catch (error) {
    return failed(host, record, error)
  }
}

function decoded(message: unknown): Decoded {
  return { message: message as AnyMessage, fault: '' }
}

function failed(host: RunnerHost, record: StoredRecord, error: unknown): Decoded | Promise<Decoded> {
  if (!isUnavailable(error)) return { message: null, fault: `it cannot be decoded: ${describeError(error)}` }
  return decodeWhenBack(host, record, error)
}

async function decodeWhenBack(host: RunnerHost, record: StoredRecord, first: Error): Promise<Decoded> {
  let error: unknown = first
  for (;;) {
    if (!isUnavailable(error))
      return { message: null, fault: `it cannot be decoded: ${describeError(error)}` }
    host.group.gate.shut('schema_registry', describeError(error), false)
    if (!(await host.callable())) return { message: null, fault: '' }
    try {
      const message = await host.group.codec.decode(host.group.topic, record)
      host.group.gate.worked()
      return decoded(message)
    } catch (next) {
      error = next
    }
  }
}
