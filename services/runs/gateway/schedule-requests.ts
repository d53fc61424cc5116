/** What callers say of schedules, checked beyond its schema, and what they see of them. */

import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { idempotencyProblems } from '#services/access/idempotency.ts'
import type { NodeSet } from '../nodes/nodes.ts'
import type { Firing, Schedule, ScheduleFields } from '../schedules/schedules.ts'
import { isCron, isTimeZone, nextTime } from '../schedules/times.ts'
import { spokenText } from '../state/types.ts'
import { faulty, type GivenParts } from './message-parts.ts'
import { checkedId, checkedMessage, checkedParts, content, nodeOf } from './requests.ts'

const nameLengthMax = 128
/** In lists. */
const messageShown = 200

/** RFC 3339: without an offset it would be another time at each place. */
const momentPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/
const momentRule = 'a time such as 2027-01-31T12:00:00Z'

const orNull = <S extends Type.TSchema>(schema: S) => Type.Union([schema, Type.Null()])
const time = (description: string) =>
  Type.String({
    pattern: momentPattern.source,
    rule: momentRule,
    description,
    examples: ['2027-01-31T12:00:00Z'],
  })

const fields = {
  name: orNull(Type.String({ minLength: 1, maxLength: 2 * nameLengthMax, description: 'For people.' })),
  agent: Type.String({
    minLength: 1,
    maxLength: 256,
    description: 'A codename or slug.',
    examples: ['WHALE'],
  }),
  dispatch: Type.Boolean({ description: '`true`, in place of `agent`: all agents get it, as by /dispatch.' }),
  message: Type.String({ description: 'A text, in place of `parts`.', examples: ['Any news of the relay?'] }),
  parts: content.properties.parts,
  cron: orNull(
    Type.String({
      maxLength: 256,
      description: 'Five fields: minute, hour, day of the month, month, day of the week.',
      examples: ['30 7 * * 1-5'],
    }),
  ),
  timezone: Type.String({
    maxLength: 64,
    description: 'For `cron`: its name in the IANA database. Default UTC.',
    examples: ['Europe/Berlin'],
  }),
  at: orNull(time('Once, in place of `cron`: a time to come.')),
  session: Type.String({
    minLength: 1,
    maxLength: 1_024,
    description:
      '`new`: each time a new one (the default); otherwise the id of the session that it goes on in.',
  }),
  missed: Type.Enum(['skip', 'once'], {
    type: 'string',
    description:
      'What becomes of times at which the platform was not there, for more than a minute: nothing (`skip`, the default), or one run ' +
      'for all of them (`once`).',
  }),
  paused: Type.Boolean(),
  endsAt: orNull(time('It fires no more after that.')),
}

const optional = Object.fromEntries(
  Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema)]),
) as { [Name in keyof typeof fields]: Type.TOptional<(typeof fields)[Name]> }

/** For a new schedule, and for changes of one. */
export const scheduleRequest = Type.Object(optional, {
  additionalProperties: false,
  title: 'ScheduleRequest',
  description: 'For an `agent` or a `dispatch`; with `message` or `parts`; by `cron` or `at`.',
})
export const scheduleChanges = Type.Object(optional, {
  additionalProperties: false,
  minProperties: 1,
  title: 'ScheduleChanges',
  description: 'Fields that are left out stay.',
})
export type ScheduleRequest = Type.Static<typeof scheduleRequest>

export const scheduleProblems = [
  'forbidden',
  'agent_not_found',
  'too_many_schedules',
  'payload_too_large',
  ...idempotencyProblems,
] as const

const unchanged: ScheduleFields = {
  name: null,
  agent: null,
  message: { parts: [] },
  cron: null,
  timezone: 'UTC',
  at: null,
  endsAt: null,
  sessionId: null,
  missed: 'skip',
  paused: false,
}

/**
 * The fields of a schedule after a request, those of `before` where it says nothing. `now` is the database's. Throws AppError
 * `validation_failed`, `agent_not_found`, `payload_too_large`.
 */
export function readSchedule(
  request: ScheduleRequest,
  { nodes, now, before }: { nodes: NodeSet; now: Date; before?: ScheduleFields },
): ScheduleFields {
  const after = { ...(before ?? unchanged) }
  if (request.name !== undefined) after.name = checkedName(request.name)
  Object.assign(after, addresseeOf(request, nodes, before), messageOf(request, before))
  if (request.timezone !== undefined) {
    if (!isTimeZone(request.timezone))
      throw faulty('timezone', 'a name of the IANA database, such as Europe/Berlin')
    after.timezone = request.timezone
  }
  if (request.session !== undefined)
    after.sessionId = request.session === 'new' ? null : checkedId(request.session, 'session')!
  if (request.missed !== undefined) after.missed = request.missed
  if (request.paused !== undefined) after.paused = request.paused
  if (request.endsAt !== undefined) after.endsAt = momentOf(request.endsAt, 'endsAt')
  Object.assign(after, timesOf(request, before))
  const isNewPlan = ['cron', 'timezone', 'at', 'endsAt'].some((name) => name in request)
  const goesOn = before?.paused === true && !after.paused
  if (isNewPlan || goesOn) refuseNoTimes(after, now)
  return after
}

function checkedName(name: string | null): string | null {
  if (name === null) return null
  if ([...name].length > nameLengthMax) throw faulty('name', `at most ${nameLengthMax} characters`)
  if (name.includes('\0')) throw faulty('name', 'a text without the character NUL')
  return name
}

function addresseeOf({ agent, dispatch }: ScheduleRequest, nodes: NodeSet, before?: ScheduleFields) {
  if (agent !== undefined && dispatch === true) throw faulty('dispatch', 'one of agent and dispatch')
  if (agent !== undefined) return { agent: (nodes.byCodename(agent) ?? nodeOf(nodes, agent)).codename }
  if (dispatch === true) return { agent: null }
  if (!before || (dispatch === false && before.agent === null))
    throw faulty('agent', 'is required, or dispatch: true')
  return {}
}

function messageOf({ message, parts }: ScheduleRequest, before?: ScheduleFields) {
  if (message !== undefined && parts !== undefined) throw faulty('parts', 'one of message and parts')
  if (message !== undefined) return { message: checkedMessage(message, 'message') }
  if (parts !== undefined) return { message: checkedParts(parts as GivenParts) }
  if (!before) throw faulty('message', 'is required, or parts')
  return {}
}

function timesOf({ cron = undefined, at = undefined }: ScheduleRequest, before?: ScheduleFields) {
  if (cron != null && at != null) throw faulty('at', 'one of cron and at')
  if (cron != null) {
    if (!isCron(cron))
      throw faulty('cron', 'five fields: minute, hour, day of the month, month, day of the week')
    return { cron: cron.trim(), at: null }
  }
  if (at != null) return { at: momentOf(at, 'at'), cron: null }
  const left = {
    cron: cron === null ? null : (before?.cron ?? null),
    at: at === null ? null : (before?.at ?? null),
  }
  if (left.cron === null && left.at === null) throw faulty('cron', 'is required, or at')
  return left
}

function momentOf(text: string | null, name: string): Date | null {
  if (text === null) return null
  const moment = new Date(text)
  if (!momentPattern.test(text) || Number.isNaN(moment.getTime())) throw faulty(name, momentRule)
  return moment
}

function refuseNoTimes(fields: ScheduleFields, now: Date): void {
  if (nextTime(fields, now)) return
  if (fields.endsAt && fields.endsAt <= now) throw faulty('endsAt', 'must be a time to come')
  if (fields.at && fields.at <= now) throw faulty('at', 'must be a time to come')
  if (nextTime({ ...fields, endsAt: null }, now)) throw faulty('endsAt', 'a time behind the first one')
  throw faulty('cron', 'must name a day that comes')
}

const shownTime = orNull(Type.String({ format: 'date-time' }))

export const schedule = Type.Object(
  {
    id: Type.String({ examples: ['sched_0123456789abcdef0123456789abcdef'] }),
    name: fields.name,
    agent: orNull(Type.String({ description: 'Its codename.' })),
    dispatch: fields.dispatch,
    message: Type.String({ description: 'The text of the message, in lists the first 200 characters.' }),
    parts: Type.Optional(
      Type.Array(Type.Any(), { description: 'As they were sent, where it is shown alone.' }),
    ),
    cron: fields.cron,
    timezone: fields.timezone,
    at: shownTime,
    session: fields.session,
    missed: fields.missed,
    paused: fields.paused,
    pausedReason: orNull(Type.String({ description: 'Where the platform paused it.' })),
    endsAt: shownTime,
    nextAt: shownTime,
    lastAt: orNull(
      Type.String({ format: 'date-time', description: 'The planned time that was fired last.' }),
    ),
    lastRunId: orNull(Type.String()),
    lastGoalId: orNull(Type.Integer({ description: 'Of a dispatch.' })),
    failures: Type.Integer({ description: 'In a row, up to now; at ten it is paused.' }),
    owner: Type.String({ description: 'The user of its runs.' }),
    createdAt: Type.String({ format: 'date-time' }),
    updatedAt: Type.String({ format: 'date-time' }),
  },
  { title: 'Schedule', description: 'A schedule.' },
)
export const schedules = Type.Array(schedule, { title: 'Schedules', description: 'The newest first.' })

const firing = Type.Object(
  {
    plannedAt: Type.String({ format: 'date-time' }),
    firedAt: Type.String({ format: 'date-time' }),
    runId: orNull(Type.String()),
    goalId: orNull(Type.Integer({ description: 'Of a dispatch.' })),
    status: Type.String({
      description:
        'Of its run or dispatch; `refused`: nothing was started, `missed`: the platform was not there in time.',
    }),
    error: orNull(
      Type.Object(
        { code: Type.String(), message: Type.String() },
        { additionalProperties: true, title: 'FiringError' },
      ),
    ),
  },
  { title: 'ScheduledRun' },
)
export const firings = Type.Array(firing, { title: 'ScheduledRuns', description: 'The newest first.' })
export const scheduleDeleted = Type.Object(
  { id: Type.String(), deleted: Type.Literal(true) },
  { title: 'ScheduleDeleted', description: 'It is gone; its runs stay.' },
)

export function viewOfSchedule({ message, sessionId, number: _, ownerUid: _uid, ...shown }: Schedule) {
  return {
    ...shown,
    dispatch: shown.agent === null,
    message: spokenText(message),
    parts: message.parts,
    session: sessionId ?? 'new',
    at: textOf(shown.at),
    endsAt: textOf(shown.endsAt),
    nextAt: textOf(shown.nextAt),
    lastAt: textOf(shown.lastAt),
    createdAt: shown.createdAt.toISOString(),
    updatedAt: shown.updatedAt.toISOString(),
  }
}

/** As it is in lists. */
export function briefOfSchedule(one: Schedule) {
  const { parts: _, message, ...view } = viewOfSchedule(one)
  return { ...view, message: [...message].slice(0, messageShown).join('') }
}

export function viewOfFiring({ number: _, plannedAt, firedAt, ...firing }: Firing) {
  return { ...firing, plannedAt: plannedAt.toISOString(), firedAt: firedAt.toISOString() }
}

function textOf(moment: Date | null): string | null {
  return moment?.toISOString() ?? null
}

/** For whoever may not see it, it is not there. */
export function scheduleNotFound(): AppError {
  return new AppError('schedule_not_found', 'There is no such schedule, or it is not yours.')
}
