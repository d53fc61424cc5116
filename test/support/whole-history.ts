/** The history of the whole platform's clients, requests and answers: the model is checked against it. */

import type { AcceptedOperation } from '#client/client.ts'
import { axisVector } from './points.ts'

/** Milliseconds of one clock. */
type At = number

/** `collection/id`, as the key of a record in vectors.commands. */
export type Key = string

/** One try of a request that writes. A request that is sent again is a further try of the same version. */
export interface Write {
  /** The version in every one of its keys; unique to the request. */
  version: number
  kind: 'upsert' | 'delete'
  keys: readonly Key[]
  /** The process of a gateway that it was sent to. */
  gateway: string
  begunAt: At
  endedAt: At
  /**
   * `refused`: nothing was written. `unavailable` (503) and `unanswered`: anything may have been written, or may be
   * later.
   */
  outcome: 'acknowledged' | 'refused' | 'unavailable' | 'unanswered'
  /** The operation id of an acknowledged one. */
  operation?: string
}

/** A request that was acknowledged, for reads that name its operation. */
export interface Accepted {
  write: Write
  collection: string
  ids: string[]
  answer: AcceptedOperation
}

/** A read's finding at a key. `other`: anything, or nothing, but not this version. */
export type Seen = { version: number } | 'missing' | { other: number }

export interface Read {
  /** For messages: the route. */
  what: string
  key: Key
  seen: Seen
  /** The operation that the read must reflect. */
  after: string
  begunAt: At
}

export interface History {
  writes: Write[]
  reads: Read[]
  /** How often each code was answered instead of success, or none came. */
  faults: Record<string, number>
  /** Answers that no fault explains. */
  surprises: string[]
}

export function createHistory(): History {
  return { writes: [], reads: [], faults: {}, surprises: [] }
}

/** The value that an upsert of a version writes to each of its keys. */
export function payloadOf(version: number): { version: number; title: string } {
  return { version, title: `v${version}` }
}

/** Numbers that float32 holds exactly, different from version to version, of norms from 1 to 1.5. */
export function vectorOf(version: number): number[] {
  return axisVector(version, ((Math.floor(version / 1_536) % 8) + 1) / 8)
}
