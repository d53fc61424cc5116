/** Schedules, as operators make, list, change and delete them. */

import { Type } from 'typebox'
import {
  briefOfSchedule,
  readSchedule as readRequest,
  scheduleNotFound,
  viewOfFiring,
  viewOfSchedule,
} from '#services/runs/gateway/schedule-requests.ts'
import { loadNodes } from '#services/runs/nodes/nodes.ts'
import {
  changeSchedule,
  createSchedule,
  databaseNow,
  deleteSchedule,
  listFirings,
  listSchedules,
  newScheduleId,
  readSchedule,
} from '#services/runs/schedules/schedules.ts'
import { type Action, defineAction, type Shown, tableOf } from './action.ts'
import type { OperationContext } from './operation.ts'
import { listPages, operator } from './operator.ts'

type ScheduleView = ReturnType<typeof viewOfSchedule>
type Brief = ReturnType<typeof briefOfSchedule>
type FiringView = ReturnType<typeof viewOfFiring>

const limitMax = 1_000
const limit = Type.Optional(Type.Integer({ minimum: 1, maximum: limitMax }))
const limitOption = ['count', `at most so many, from 1 to ${limitMax}; default 100`] as const
const text = Type.Optional(Type.String({ minLength: 1 }))
const one = { id: Type.String({ description: 'its id' }) }
const targetOf = ({ id }: { id: string }) => `schedule/${id}`

function shownOf({ parts: _, ...schedule }: ScheduleView): Shown {
  return { fields: schedule, texts: ['message'] }
}

const addAction = defineAction({
  name: 'schedules add',
  summary: 'Send a message to an agent, or to all, by the clock',
  change: { action: 'schedule.create', target: () => 'schedule' },
  args: Type.Object({
    agent: Type.String({ description: 'its codename, or "all"' }),
    text: Type.String({ description: 'the message' }),
    cron: text,
    timezone: text,
    at: text,
    session: text,
    missed: Type.Optional(Type.Enum(['skip', 'once'])),
    endsAt: text,
    name: text,
  }),
  async run(context, { agent, text: message, ...given }): Promise<ScheduleView> {
    const { env, engines } = context.platform
    const now = await databaseNow(engines.relational)
    const request = { ...given, message, ...(agent === 'all' ? { dispatch: true } : { agent }) }
    const fields = readRequest(request, { nodes: loadNodes(env), now })
    const id = newScheduleId()
    context.describe({ target: targetOf({ id }) })
    return viewOfSchedule(await createSchedule(engines.relational, { ...fields, id, ownerUid: operator.uid }))
  },
  cli: [
    {
      positional: ['agent', 'text'],
      options: {
        cron: ['fields', 'minute, hour, day of the month, month, day of the week'],
        timezone: ['name', 'of --cron, for example Europe/Berlin; default: UTC'],
        at: ['time', 'once, in place of --cron, for example 2027-01-31T12:00:00Z'],
        session: ['id', 'go on in this session; default: a new one each time'],
        missed: ['what', 'of times at which the platform was not there: skip (default), or once'],
        endsAt: ['time', 'fire no more after that'],
        name: ['name', 'for people'],
      },
      words: { endsAt: 'until' },
      example: `flotilla schedules add WHALE 'Any news of the relay?' --cron '30 7 * * 1-5' --timezone Europe/Berlin`,
      render: shownOf,
    },
  ],
})

const listAction = defineAction({
  name: 'schedules list',
  summary: 'The newest first',
  args: Type.Object({ limit }),
  /** Items are pages before the last. */
  async run({ platform, output }: OperationContext<Brief[]>, { limit: most = 100 }) {
    const { relational } = platform.engines
    const schedules = await listPages(output, most, async (limit, before: number | undefined) => {
      const from = before === undefined ? {} : { before }
      const page = await listSchedules(relational, { own: null, limit, ...from })
      return { rows: page.schedules.map(briefOfSchedule), next: page.next }
    })
    return { schedules }
  },
  cli: [
    {
      options: { limit: limitOption },
      example: 'flotilla schedules list',
      gather: (pages, last) => ({ schedules: [...pages.flat(), ...last.schedules] }),
      render: ({ schedules }) =>
        tableOf(schedules, {
          id: ({ id }) => id,
          agent: ({ agent }) => agent ?? 'all',
          when: ({ cron, timezone, at }) => (cron === null ? at : `${cron} ${timezone}`),
          next: ({ nextAt, paused, pausedReason }) =>
            paused ? `paused${pausedReason ? `: ${pausedReason}` : ''}` : nextAt,
          failures: ({ failures }) => failures,
          owner: ({ owner }) => owner,
          message: ({ name, message }) => name ?? message,
        }),
    },
  ],
})

const showAction = defineAction({
  name: 'schedules show',
  summary: 'With its message',
  args: Type.Object(one),
  async run({ platform }, { id }) {
    const found = await readSchedule(platform.engines.relational, id)
    if (!found) throw scheduleNotFound()
    return viewOfSchedule(found)
  },
  cli: [
    {
      positional: ['id'],
      example: 'flotilla schedules show sched_0123456789abcdef0123456789abcdef',
      render: shownOf,
    },
  ],
})

const pauseAction = (paused: boolean) =>
  defineAction({
    name: paused ? 'schedules pause' : 'schedules resume',
    summary: paused ? 'It fires no more until it is resumed' : 'It goes on with its next time',
    change: { action: 'schedule.change', target: targetOf },
    args: Type.Object(one),
    async run({ platform }, { id }) {
      const nodes = loadNodes(platform.env)
      const changed = await changeSchedule(platform.engines.relational, id, (before, now) =>
        readRequest({ paused }, { nodes, now, before }),
      )
      return viewOfSchedule(changed)
    },
    cli: [
      {
        positional: ['id'],
        example: `flotilla schedules ${paused ? 'pause' : 'resume'} sched_0123456789abcdef0123456789abcdef`,
        render: ({ id, nextAt }) =>
          paused ? `${id} is paused` : `${id} goes on${nextAt === null ? '' : `, next at ${nextAt}`}`,
      },
    ],
  })

const removeAction = defineAction({
  name: 'schedules remove',
  summary: 'Its runs stay',
  change: { action: 'schedule.delete', target: targetOf },
  args: Type.Object(one),
  async run({ platform }, { id }) {
    if (!(await deleteSchedule(platform.engines.relational, id))) throw scheduleNotFound()
    return { id, deleted: true as const }
  },
  cli: [
    {
      positional: ['id'],
      example: 'flotilla schedules remove sched_0123456789abcdef0123456789abcdef',
      render: ({ id }) => `${id} removed`,
    },
  ],
})

const runsAction = defineAction({
  name: 'schedules runs',
  summary: 'What became of its times, the newest first',
  args: Type.Object({ ...one, limit }),
  /** Items are pages before the last. */
  async run({ platform, output }: OperationContext<FiringView[]>, { id, limit: most = 100 }) {
    const { relational } = platform.engines
    if (!(await readSchedule(relational, id))) throw scheduleNotFound()
    const runs = await listPages(output, most, async (limit, before: number | undefined) => {
      const from = before === undefined ? {} : { before }
      const page = await listFirings(relational, { id, limit, ...from })
      return { rows: page.firings.map(viewOfFiring), next: page.next }
    })
    return { runs }
  },
  cli: [
    {
      positional: ['id'],
      options: { limit: limitOption },
      example: 'flotilla schedules runs sched_0123456789abcdef0123456789abcdef',
      gather: (pages, last) => ({ runs: [...pages.flat(), ...last.runs] }),
      render: ({ runs }) =>
        tableOf(runs, {
          planned: ({ plannedAt }) => plannedAt,
          status: ({ status }) => status,
          run: ({ runId, goalId }) => runId ?? (goalId === null ? null : `dispatch ${goalId}`),
          error: ({ error }) => error?.message ?? null,
        }),
    },
  ],
})

export const scheduleActions: readonly Action[] = [
  addAction,
  listAction,
  showAction,
  pauseAction(true),
  pauseAction(false),
  removeAction,
  runsAction,
]
