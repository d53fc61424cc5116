/** How a caller wants to be answered: at once, after a while, or with a stream. */

import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { acceptsEvents } from '#runtime/http/accepts-events.ts'

/** Longer waits break at proxies. */
export const waitMsMax = 60_000

export interface Wanted {
  /** The events as they come. */
  stream: boolean
  /** 0: the answer says that the run was accepted. */
  waitMs: number
  /** What of the header Prefer is followed. */
  applied: string | undefined
}

/** For the schema of a route that follows Prefer. */
export const preferHeaders = Type.Object({
  prefer: Type.Optional(
    Type.String({
      description:
        '`respond-async`: 202 and the run at once. `wait=N`: at most N seconds (60 without it), then 202 and the run (RFC 7240).',
    }),
  ),
})

/** `streaming`: of the body. */
export function wantedBy({ headers }: FastifyRequest, streaming: boolean): Wanted {
  const preferences = listOf(headers.prefer)
  const stream = streaming || acceptsEvents(headers.accept)
  if (preferences.includes('respond-async')) return { stream: false, waitMs: 0, applied: 'respond-async' }
  const wait = preferences.map((one) => /^wait="?(\d{1,6})"?$/.exec(one)?.[1]).find(Boolean)
  if (wait === undefined || stream) return { stream, waitMs: waitMsMax, applied: undefined }
  const seconds = Math.min(Number(wait), waitMsMax / 1_000)
  return { stream, waitMs: seconds * 1_000, applied: `wait=${seconds}` }
}

function listOf(header: string | string[] | undefined): string[] {
  return [header ?? []]
    .flat()
    .flatMap((line) => line.split(/[,;]/))
    .map((one) => one.trim().toLowerCase())
}
