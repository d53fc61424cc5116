/**
 * An agent that writes, overwrites and deletes points while its platform comes and goes, and knows what must be
 * there.
 */

import { type AcceptedOperation, type Client, ProblemError } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { axisVector } from './points.ts'

/** A possible state of a point: a version of it, or gone. */
type State = number | 'gone'

export interface Writer {
  /** Operations that the platform answered with success. */
  acknowledged(): number
  /** Operations that were accepted only (202). */
  accepted: AcceptedOperation[]
  /** Rejects with the fault that ended it; else it stays pending. */
  broken: Promise<never>
  /** Ends after the operation under way. */
  stop(): Promise<void>
  /** Ids of this writer that must or may be there. */
  ids(): string[]
  /** Why a point must not be as it was read (null: missing); undefined when it may. */
  faultOf(id: string, read: { vector: number[]; payload: unknown } | null): string | undefined
}

export interface WriterOptions {
  client: Client
  /** Begins every id. */
  name: string
  collection: string
  /** Answers only when applied. */
  wait: boolean
  /** Vectors come back as they were sent; else up to a positive factor, as Qdrant gives them. */
  exact: boolean
  /** Between two operations. Default 0. */
  pauseMs?: number
}

const pauseAfterFaultMs = 50
/** Enough keys to touch each of the topic's twelve partitions for sure. */
const manyKeys = 300
const appliedMsMax = 120_000
const askedAtOnce = 10

/**
 * One operation after the other, each on one point: of ten, seven make a point, two overwrite one and one deletes one.
 * An operation without an answer, or with a fault of the platform's, may have happened or not.
 */
export function startWriter({ client, name, collection, wait, exact, pauseMs = 0 }: WriterOptions): Writer {
  const states = new Map<string, Set<State>>()
  const accepted: AcceptedOperation[] = []
  let acknowledged = 0
  let on = true

  async function writeOne(n: number): Promise<void> {
    const deletes = n % 10 === 9
    const id = deletes || n % 5 === 3 ? `${name}-${n >> 1}` : `${name}-${n}`
    const after: State = deletes ? 'gone' : n
    const before = states.get(id) ?? new Set<State>(['gone'])
    states.set(id, new Set([...before, after]))
    try {
      const answer = deletes
        ? await client.delete(collection, [id], { wait })
        : await client.upsert(collection, [{ id, ...contentOf(n) }], { wait })
      states.set(id, new Set([after]))
      acknowledged += 1
      if (answer.status === 'accepted') accepted.push(answer)
    } catch (error) {
      // Any other fault is the test's.
      if (!(error instanceof ProblemError) || (error.status !== 0 && error.status !== 503)) throw error
      await sleep(pauseAfterFaultMs)
    }
  }

  async function write(): Promise<void> {
    for (let n = 0; on; n++) {
      await writeOne(n)
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }
  const writing = write()
  // The caller that stops it sees the fault.
  writing.catch(() => {})
  const broken = writing.then(() => new Promise<never>(() => {}))
  broken.catch(() => {})
  return {
    broken,
    acknowledged: () => acknowledged,
    accepted,
    stop() {
      on = false
      return writing
    },
    ids: () => [...states.keys()],
    faultOf(id, read) {
      const may = states.get(id) as Set<State>
      const fits = [...may].some((state) =>
        state === 'gone' ? read === null : read !== null && isVersion(read, state, exact),
      )
      if (fits) return undefined
      return `${id} must be ${[...may].join(' or ')} and is ${read ? JSON.stringify(read.payload) : 'missing'}`
    },
  }
}

/** Numbers that float32 holds exactly, different from version to version. */
function contentOf(version: number): { vector: number[]; payload: { version: number; text: string } } {
  return {
    vector: axisVector(version, ((version % 7) + 1) / 8),
    payload: { version, text: `version ${version}` },
  }
}

function isVersion(read: { vector: number[]; payload: unknown }, version: number, exact: boolean): boolean {
  const { vector, payload } = contentOf(version)
  if (JSON.stringify(read.payload) !== JSON.stringify(payload)) return false
  const factor = exact ? 1 : Math.hypot(...read.vector) / Math.hypot(...vector)
  const slack = exact ? 0 : 1e-6
  return vector.every((component, at) => Math.abs(component * factor - (read.vector[at] as number)) <= slack)
}

/** Every operation that was only accepted (202) must become applied; throws when one does not. */
export async function waitUntilApplied(client: Client, writers: readonly Writer[]): Promise<void> {
  const left = writers.flatMap((writer) => writer.accepted)
  const one = async () => {
    for (let operation = left.pop(); operation; operation = left.pop()) {
      const { status, error } = await client.waitFor(operation, { timeoutMs: appliedMsMax })
      if (status !== 'applied') throw new Error(`${operation.operation_id} is ${status}: ${error}`)
    }
  }
  await Promise.all(Array.from({ length: askedAtOnce }, one))
}

/** Reads every point of the stopped writers back: all faults, and how many points there are. */
export async function checkWriters(
  client: Client,
  collection: string,
  writers: readonly Writer[],
): Promise<{ faults: string[]; present: number }> {
  await passEverything(client)
  const faults: string[] = []
  let present = 0
  for (const writer of writers) {
    const ids = writer.ids()
    for (let from = 0; from < ids.length; from += 500) {
      const part = ids.slice(from, from + 500)
      const { points } = await client.getMany(collection, part)
      const found = new Map(points.map((point) => [point.id, point]))
      present += found.size
      for (const id of part) {
        const fault = writer.faultOf(id, found.get(id) ?? null)
        if (fault !== undefined) faults.push(fault)
      }
    }
  }
  return { faults, present }
}

/** Writes to every partition: earlier operations without an answer are applied now, or never will be. */
async function passEverything(client: Client): Promise<void> {
  const ids = Array.from({ length: manyKeys }, (_, n) => `mark-${n}`)
  const mark = await client.delete('fleet_notes', ids)
  const { status } = await client.waitFor(mark, { timeoutMs: appliedMsMax })
  if (status !== 'applied') throw new Error(`the mark behind all writes is ${status}`)
}
