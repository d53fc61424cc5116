/** A stored record's message; a record that cannot be decoded is a fault of its own, a registry that is away is not. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import type { AnyMessage, RunnerHost } from './partition-host.ts'

/** Why a record has no message. */
export class Fault {
  readonly reason: string

  constructor(reason: string) {
    this.reason = reason
  }
}

/** null: the partition was over before the registry came back. */
export type Decoded = AnyMessage | Fault | null

/** At once when the codec answers at once, which it does for all but the first records of a schema. */
export function decodeRecord(host: RunnerHost, record: StoredRecord): Decoded | Promise<Decoded> {
  try {
    const message = host.group.codec.decode(host.group.topic, record) as AnyMessage | Promise<AnyMessage>
    return message instanceof Promise ? message.catch((error) => failed(host, record, error)) : message
  } catch (error) {
    return failed(host, record, error)
  }
}

function failed(host: RunnerHost, record: StoredRecord, error: unknown): Decoded | Promise<Decoded> {
  return isUnavailable(error) ? decodeWhenBack(host, record, error) : faultOf(error)
}

async function decodeWhenBack(host: RunnerHost, record: StoredRecord, first: Error): Promise<Decoded> {
  let error: unknown = first
  for (;;) {
    if (!isUnavailable(error)) return faultOf(error)
    host.group.gate.shut('schema_registry', describeError(error), false)
    if (!(await host.callable())) return null
    try {
      const message = await host.group.codec.decode(host.group.topic, record)
      host.group.gate.worked()
      return message as AnyMessage
    } catch (next) {
      error = next
    }
  }
}

function faultOf(error: unknown): Fault {
  return new Fault(`it cannot be decoded: ${describeError(error)}`)
}
