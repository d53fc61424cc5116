/** What callers do with a run or a dispatch that was started: they show it, follow its events, and cancel it. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type TProperties, type TSchema, Type } from 'typebox'
import { serverMark } from '#runtime/http/api/facts.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { openFollow } from '../../follow/follow.ts'
import type { Subject } from '../../follow/subjects.ts'
import type { RunParts } from '../gateway.ts'
import { eventStream } from '../views.ts'
import { afterOf, answerEvents, hasAll, nothingMore, streamHeaders, streamQuery } from './stream.ts'

/** How long a request waits for the first one under its Idempotency-Key: that accepts the run within milliseconds. */
export const startWaitMs = 5_000

interface Started<T, F extends T> {
  name: 'run' | 'dispatch'
  tag: 'runs' | 'dispatches'
  /** Name of its id in the path. */
  param: string
  id: TSchema
  view: TSchema
  viewOf(started: T): object
  /** Where `find` gives more than other answers show. Default: `viewOf`. */
  viewOfFound?(started: F): object
  /** The last frame of its events. */
  endOf(started: T): object
  /** Throws the AppError of one that is not there, or that the caller may not see. */
  find(caller: Caller, id: string): Promise<F>
  subject(started: T, request: FastifyRequest): Subject<T>
  cancel(started: T, headers: Record<string, string>): Promise<T>
  followQuery?: TProperties
  descriptions: { follow: string; cancel: string }
  sample: Sample
}

export function registerStarted<T extends { status: string }, F extends T = T>(
  scope: FastifyInstance,
  parts: RunParts,
  started: Started<T, F>,
): void {
  const { name, param, view, viewOf, viewOfFound = viewOf, descriptions } = started
  const url = `/${started.tag}/:${param}`
  const tags = [started.tag]
  const title = name === 'run' ? 'Run' : 'Dispatch'
  const missing = `${name}_not_found` as const
  const params = Type.Object({ [param]: started.id })
  const idOf = (request: FastifyRequest) => (request.params as Record<string, string>)[param]!
  const find = (request: FastifyRequest) => started.find(callerOf(request), idOf(request))
  const sampleOf = (rest: string, options?: string) => (prefix: string) =>
    sampleText(started.sample, `${prefix}/${started.tag}/$${started.sample.variable}${rest}`, prefix, options)

  scope.route({
    method: 'GET',
    url,
    config: { problems: ['forbidden', missing], sample: sampleOf('') },
    schema: {
      operationId: `get${title}`,
      tags,
      summary: `Show a ${name}`,
      params,
      response: { 200: view },
    },
    handler: async (request) => viewOfFound(await find(request)),
  })
  scope.route({
    method: 'GET',
    url: `${url}/events`,
    config: {
      problems: ['forbidden', missing, 'too_many_streams'],
      sample: sampleOf('/events', '-N --max-time 5'),
    },
    schema: {
      operationId: `follow${title}`,
      tags,
      summary: `Follow the events of a ${name}`,
      description: descriptions.follow,
      params,
      querystring: Type.Object({ ...streamQuery, ...started.followQuery }),
      headers: streamHeaders,
      response: { 200: eventStream(`Events, also of a ${name} that has ended.`), 204: nothingMore },
    },
    async handler(request, reply) {
      const after = afterOf(request)
      const subject = started.subject(await find(request), request)
      if (await hasAll(subject, after)) return reply.code(204).send()
      const events = { follow: openFollow(parts, subject), after, endOf: started.endOf }
      return answerEvents(parts.streams, request, reply, events)
    },
  })
  scope.route({
    method: 'POST',
    url: `${url}/cancel`,
    onRequest: leastAccess('member'),
    config: {
      operation: `${name}.cancel`,
      problems: ['forbidden', missing],
      sample: sampleOf('/cancel', '-X POST'),
    },
    schema: {
      operationId: `cancel${title}`,
      tags,
      summary: `Cancel a ${name}`,
      description: descriptions.cancel,
      params,
      response: { 200: view, 202: view },
    },
    async handler(request, reply) {
      const found = await find(request)
      const change = { action: `${name}.cancel`, target: idOf(request) } as const
      const canceled = await parts.change(request, change, () =>
        started.cancel(found, recordHeaders(request)),
      )
      if (canceled.status === 'running') reply.code(202)
      return viewOf(canceled)
    },
  })
}

/** How the commands of the reference page start one first, so that they work when pasted. */
interface Sample {
  /** The shell variable of its id, and how `sed` finds it in the answer. */
  variable: string
  found: string
  /** By the beginning of the paths: '' at the run gateway. */
  start(prefix: string): { path: string; body: string; more?: string }
}

const authorization = '-H "Authorization: Bearer $ID_TOKEN"'

/** `options` of the second curl, which asks for `path`. */
function sampleText({ variable, found, start }: Sample, path: string, prefix: string, options = ''): string {
  const { path: startPath, body, more = '' } = start(prefix)
  const end = options.includes('--max-time') ? ' || true' : ''
  return `${variable}=$(curl -sS "${serverMark}${startPath}" \\
  ${authorization}${more} \\
  -H 'Content-Type: application/json' -d '${body}' | sed 's/.*${found}.*/\\1/')
curl -sS${options === '' ? '' : ` ${options}`} "${serverMark}${path}" \\
  ${authorization}${end}`
}
