/**
 * Reads and follows a session: its trees in the order in which they were accepted, each with its message and its events. Trees that
 * have not ended are read again, so a reader that goes on from a position gets each event once.
 */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { createWakeup } from '#lib/backoff.ts'
import { readSaid, readTrees, type SeenBy, type SessionKey } from '../state/sessions.ts'
import type { RunEvent } from '../state/types.ts'
import type { FollowParts } from './follow.ts'
import { lookKeyOf } from './subjects.ts'

const treesAtOnce = 20
const eventsAtOnce = 16
/** Trees that are followed at once: the next ones are given when some of these have ended. */
export const openMax = 256
const waitMs = 60_000

/** How far a reader has come. */
export interface SessionPosition {
  /** The newest tree that was begun. */
  upTo: number
  /** Trees that have not ended, with the number of the last event that was given; 0 is the message, -1 nothing. */
  open: Map<number, number>
}

const form = /^s\d{1,15}(?:,\d{1,15}\.\d{1,15})*$/

/** Opaque to callers. */
export function positionText({ upTo, open }: SessionPosition): string {
  const trees = [...open].filter(([, seq]) => seq >= 0).map(([id, seq]) => `,${id}.${seq}`)
  return Buffer.from(`s${upTo}${trees.join('')}`).toString('base64url')
}

/** Undefined for a text that is no position. */
export function readPosition(text: string): SessionPosition | undefined {
  const [first = '', ...trees] = Buffer.from(text, 'base64url').toString('latin1').split(',')
  if (!form.test([first, ...trees].join(',')) || trees.length > openMax) return undefined
  const position = {
    upTo: Number(first.slice(1)),
    open: new Map(trees.map((tree) => tree.split('.').map(Number) as [number, number])),
  }
  return positionText(position) === text ? position : undefined
}

export const sessionStart = (): SessionPosition => ({ upTo: 0, open: new Map() })

export interface SessionReader {
  relational: SqlExecutor
  session: SessionKey
  own: SeenBy
}

/** `position`: behind this event. */
export interface SessionEvent {
  event: RunEvent
  position: string
}

/** All stored events behind the position, which moves on with them. `ids` gets the run of each open tree. */
export async function* saidIn(
  { relational, session, own }: SessionReader,
  position: SessionPosition,
  ids = new Map<number, string>(),
): AsyncGenerator<SessionEvent> {
  const { open } = position
  for (;;) {
    const limit = Math.min(treesAtOnce, openMax - open.size)
    const after = position.upTo
    const trees = await readTrees(relational, { session, own, after, limit, open: [...open.keys()] })
    const there = new Set(trees.map(({ id }) => id))
    for (const id of open.keys()) if (!there.has(id)) open.delete(id)
    for (const tree of trees) {
      const { id, lastEventId, ended } = tree
      let at = open.get(id) ?? (tree.hasMessage ? -1 : 0)
      position.upTo = Math.max(position.upTo, id)
      open.set(id, at)
      ids.set(id, tree.runId)
      while (at < lastEventId) {
        const said = await readSaid(relational, tree, at, eventsAtOnce)
        if (said.length === 0) break
        for (const { seq, event } of said) {
          at = seq
          if (ended && seq >= lastEventId) open.delete(id)
          else open.set(id, seq)
          yield { event, position: positionText(position) }
        }
      }
      if (ended) open.delete(id)
    }
    if (trees.filter(({ id }) => id > after).length < limit || limit === 0) return
  }
}

/** As `saidIn`, then new events until the signal aborts. */
export async function* followSession(
  { feed, looks, ...reader }: FollowParts & SessionReader,
  position: SessionPosition,
  signal: AbortSignal,
): AsyncGenerator<SessionEvent> {
  const news = createWakeup()
  /** The newest run of the session that was looked for. */
  let lookedTo = position.upTo
  const unwatch = looks.watch(lookKeyOf(reader.session), ({ lastEventId: newest }) => {
    if (newest <= lookedTo) return
    lookedTo = newest
    news.wake()
  })
  const ids = new Map<number, string>()
  const followed = new Map<number, () => void>()
  function followTree(id: number): () => void {
    const runId = ids.get(id)!
    const leave = feed.subscribe(runId, ({ seq, event }) => {
      // Pieces come again as a whole.
      if (seq !== null || event === null) news.wake()
    })
    const leaveLook = looks.watch({ kind: 'tree', id: runId }, ({ ended, lastEventId }) => {
      if (ended || lastEventId > (position.open.get(id) ?? 0)) news.wake()
    })
    return () => {
      leave()
      leaveLook()
    }
  }
  try {
    while (!signal.aborted) {
      yield* saidIn(reader, position, ids)
      for (const [id, leave] of followed) {
        if (position.open.has(id)) continue
        leave()
        followed.delete(id)
      }
      for (const id of ids.keys()) {
        if (!position.open.has(id)) ids.delete(id)
        else if (!followed.has(id)) followed.set(id, followTree(id))
      }
      await news.sleep(waitMs, signal)
    }
  } finally {
    unwatch()
    for (const leave of followed.values()) leave()
  }
}
