/** /api/v1/log/groups and /api/v1/log/lag: how far the reader groups are. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import type { LookedGroup } from '../group-looks.ts'
import { curveMinutesMax, lagCurves, sampleEveryMs } from '../lag-history.ts'
import type { MainApi } from '../main-api.ts'
import { closed, name, numberBetween, orNull, time, wholeNumber } from '../schemas.ts'

const history = Type.Object(
  {
    group: Type.String(),
    every_s: Type.Integer(),
    samples: Type.Array(Type.Object({ at: time, lag: Type.Integer() }), {
      description: 'The oldest first. A sample that could not be taken is missing.',
    }),
  },
  { title: 'LagHistory' },
)

const curves = Type.Object(
  {
    at: Type.Array(time, { description: 'The end of each step, the oldest first.' }),
    groups: Type.Array(
      Type.Object({
        group: Type.String(),
        lag: Type.Array(orNull(Type.Integer()), {
          description: 'The highest of each step; null: nothing was sampled in it.',
        }),
      }),
    ),
  },
  { title: 'LagCurves' },
)

const groupParams = Type.Object({ group: name('A reader group.', 'vector-writer') }, closed)
const minutes = Type.Optional(wholeNumber(`How far back: 1 to ${curveMinutesMax}; by default 60.`, '60'))
const historyQuery = Type.Object({ minutes }, closed)
const stepsMax = 360
const steps = Type.Optional(wholeNumber(`Of each curve: 1 to ${stepsMax}; by default 96.`, '96'))
const curvesQuery = Type.Object({ minutes, steps }, closed)
const problems = ['forbidden', 'log_unavailable', 'relational_engine_unavailable'] as const

export function registerGroups(scope: FastifyInstance, { observed }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/log/groups',
    {
      config: { problems },
      schema: {
        operationId: 'listGroups',
        tags: ['log'],
        summary: 'All reader groups, and how far they are behind',
        response: { 200: groups },
      },
    },
    async () => {
      const read = await observed.lag.get()
      return { groups: read.groups.map(summaryOf), as_of: read.as_of }
    },
  )
  routes.get(
    '/log/groups/:group',
    {
      config: { problems: [...problems, 'not_found'] },
      schema: {
        operationId: 'showGroup',
        tags: ['log'],
        summary: 'One reader group, partition by partition',
        params: groupParams,
        response: { 200: group },
      },
    },
    async (request) => {
      const read = await observed.lag.get()
      const found = findGroup(read.groups, request.params.group)
      const { partitions, stuck } = found
      return { ...summaryOf(found), partitions, stuck: [...stuck], as_of: read.as_of }
    },
  )
  routes.get(
    '/log/groups/:group/lag',
    {
      config: { problems: [...problems, 'not_found'] },
      schema: {
        operationId: 'showLagHistory',
        tags: ['log'],
        summary: 'The lag of a reader group over the last minutes, as this instance saw it',
        params: groupParams,
        querystring: historyQuery,
        response: { 200: history },
      },
    },
    async (request) => {
      const { groups: known } = await observed.lag.get()
      const { group: asked } = findGroup(known, request.params.group)
      const minutes = numberBetween(1, curveMinutesMax, 'minutes', request.query.minutes ?? '60')
      const samples = observed.lagHistory.of(asked, minutes) ?? []
      return { group: asked, every_s: sampleEveryMs / 1_000, samples }
    },
  )
  routes.get(
    '/log/lag',
    {
      config: { problems },
      schema: {
        operationId: 'showLagCurves',
        tags: ['log'],
        summary: 'The lag of all reader groups over the last minutes, as this instance saw it',
        querystring: curvesQuery,
        response: { 200: curves },
      },
    },
    async ({ query }) => {
      const { groups: known } = await observed.lag.get()
      const minutes = numberBetween(1, curveMinutesMax, 'minutes', query.minutes ?? '60')
      const steps = numberBetween(1, stepsMax, 'steps', query.steps ?? '96')
      const names = known.map((one) => one.group)
      return lagCurves(observed.lagHistory, names, { minutes, steps, nowMs: Date.now() })
    },
  )
}

function findGroup(groups: readonly LookedGroup[], asked: string): LookedGroup {
  const found = groups.find((one) => one.group === asked) ?? groups.find((one) => one.group_id === asked)
  if (found) return found
  const names = groups.map((one) => one.group).join(', ')
  throw new AppError('not_found', `There is no group ${asked.slice(0, 64)}. There are: ${names}.`)
}

function summaryOf({ partitions, stuck, ...group }: LookedGroup) {
  const state = stateOf(group, stuck.length > 0)
  const expired = partitions.reduce((sum, one) => sum + one.expired, 0)
  return { ...group, expired, state } as const
}

function stateOf({ members, lag, rests }: Pick<LookedGroup, 'members' | 'lag' | 'rests'>, isStuck: boolean) {
  if (isStuck) return 'stuck'
  if (rests === 'off') return 'off'
  if (members === 0) return 'away'
  return rests ?? (lag > 0 ? 'reading' : 'idle')
}

const perSecond = (description: string) =>
  orNull(Type.Number(), `${description} a second, over the last two minutes; null: not known yet.`)
const pace = {
  behind_s: orNull(
    Type.Number(),
    'How long the oldest record that waits has waited; null: nothing waits, or it is not known yet.',
  ),
  in_per_s: perSecond('Records that come'),
  out_per_s: perSecond('Records that are read'),
  clears_in_s: orNull(
    Type.Number(),
    'When nothing will wait if it goes on like this, of a group the slowest partition; null: nothing waits, it does not fall, or it is not known yet.',
  ),
}
const groupFields = {
  group: Type.String({ description: 'The same before and after a rebuild.' }),
  group_id: Type.String({ description: 'As the log knows it.' }),
  topic: Type.String(),
  state: Type.Enum(['reading', 'idle', 'stuck', 'away', 'asleep', 'off'], {
    type: 'string',
    description:
      'reading: it has something left; idle: it has not; stuck: a record does not get through; away: it has no members. Of the relational mirror: asleep, it lags by design until a search-pg asks; off, MIRROR=off.',
  }),
  members: Type.Integer(),
  lag: Type.Integer({ description: 'Over all partitions: end − max(committed, start).' }),
  expired: Type.Integer({
    description: 'Records that were gone from the log before the group read them; not in the lag.',
  }),
  ...pace,
}
const partitionLag = Type.Object({
  partition: Type.Integer(),
  committed: orNull(Type.Integer(), 'The next offset to be read; null: none was ever committed.'),
  start: Type.Integer(),
  end: Type.Integer(),
  lag: Type.Integer(),
  expired: Type.Integer({
    description:
      'Records between committed and start: gone from the log before the group read them. Kafka’s own tool counts them as lag.',
  }),
  owner: orNull(Type.String(), 'The client that reads it now; null: none does.'),
  ...pace,
})
const stuckRecord = Type.Object({}, { additionalProperties: true })
const groups = Type.Object(
  { groups: Type.Array(Type.Object(groupFields)), as_of: time },
  { title: 'ReaderGroups' },
)
const group = Type.Object(
  {
    ...groupFields,
    partitions: Type.Array(partitionLag),
    stuck: Type.Array(stuckRecord, {
      description: 'Records that the writer of an index cannot get through.',
    }),
    as_of: time,
  },
  { title: 'ReaderGroup' },
)
