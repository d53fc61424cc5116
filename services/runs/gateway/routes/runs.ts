/** /runs: what became of the messages to agents. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { linkNext, type PageParameters, page, readPage } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { treeOf } from '../../follow/subjects.ts'
import { cancelRun } from '../../state/end.ts'
import { listRuns, type RunQuery } from '../../state/read.ts'
import type { Run, WholeRun } from '../../state/types.ts'
import type { RunParts } from '../gateway.ts'
import { runFor, seenBy } from '../owned.ts'
import { checkedMetadata, queryText } from '../requests.ts'
import { endOfRun, joinQuery, run, runs, status, streamText, viewOfRun, viewOfWholeRun } from '../views.ts'
import { registerStarted } from './started.ts'

const filter = (description: string) => Type.Optional(queryText(description))

const filters = {
  agent: filter('A codename or slug.'),
  status: Type.Optional(status),
  userId: filter('The name of a user.'),
  sessionId: filter('A session.'),
  goalId: Type.Optional(
    Type.String({
      pattern: '^[1-9]\\d{0,14}$',
      rule: 'the number of a dispatch',
      description: 'A dispatch.',
    }),
  ),
  rootRunId: filter('The run whose tree it is.'),
}

type Filters = Pick<RunQuery, keyof typeof filters>

const metadataPrefix = 'metadata.'
/** `metadata.<name>`: several must all be met. */
const metadataFilters = { patternProperties: { '^metadata\\..': Type.String() } }

/** Takes the filters by metadata out of the query. Throws AppError `validation_failed`. */
function metadataOf(query: Record<string, unknown>): { metadata?: Record<string, string> } {
  const given = Object.entries(query).filter(([name]) => name.startsWith(metadataPrefix))
  const named = given.map(([name, text]) => [name.slice(metadataPrefix.length), text])
  const metadata = checkedMetadata(Object.fromEntries(named))
  return metadata ? { metadata } : {}
}

const newMessage = '"newMessage":{"parts":[{"text":"What do we know about the relay?"}]}'

export function registerRuns(scope: FastifyInstance, parts: RunParts): void {
  const { relational } = parts
  registerList(scope, parts)
  registerStarted<Run, WholeRun>(scope, parts, {
    name: 'run',
    tag: 'runs',
    param: 'runId',
    id: Type.String({ description: 'Its id.', maxLength: 128 }),
    view: run,
    viewOf: viewOfRun,
    viewOfFound: viewOfWholeRun,
    endOf: endOfRun,
    find: (caller, id) => runFor(relational, caller, id),
    subject({ runId, rootRunId }, { query }) {
      const whole = runId === rootRunId && (query as { join?: string }).join !== 'false'
      return treeOf(relational, rootRunId, whole ? undefined : runId)
    },
    cancel: ({ runId }, headers) => cancelRun(relational, runId, headers),
    followQuery: { join: joinQuery },
    descriptions: {
      follow: `${streamText} Those of a run that joined another one are its own alone.`,
      cancel:
        'With the runs that joined it. 202: it is at work, and ends within ten seconds. A run that has ended stays as it is.',
    },
    sample: {
      variable: 'RUN_ID',
      found: '"runId":"\\([^"]*\\)"',
      start: (prefix) =>
        prefix === ''
          ? { path: '/whale/run', body: `{${newMessage}}`, more: " \\\n  -H 'Prefer: respond-async'" }
          : { path: `${prefix}/runs`, body: `{"appName":"WHALE",${newMessage}}` },
    },
  })
}

function registerList(scope: FastifyInstance, { relational }: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/runs',
    config: { problems: ['forbidden'] },
    schema: {
      operationId: 'listRuns',
      tags: ['runs'],
      summary: 'List runs, the newest first',
      description:
        'Those that the caller started or that are of the caller as a user; an admin sees all, reports to the orchestrator among ' +
        'them. `metadata.<name>=<text>` gives those with this metadata; several must all be met.',
      querystring: Type.Object({ ...page, ...filters }, { ...metadataFilters, additionalProperties: false }),
      response: { 200: runs },
    },
    async handler(request, reply) {
      const query = request.query as PageParameters & Filters & Record<string, unknown>
      const asked = Object.fromEntries(
        Object.entries(query).filter(([name]) => Object.hasOwn(filters, name)),
      ) as Filters
      const found = await listRuns(relational, {
        ...asked,
        ...metadataOf(query),
        own: seenBy(callerOf(request)),
        ...readPage(request.query as PageParameters),
      })
      linkNext(request, reply, found.next)
      return found.runs.map(viewOfRun)
    },
  })
}
