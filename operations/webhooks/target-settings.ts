/**
 * What the targets file says of one target, without secrets: variables are named, not filled in; of headers only the names
 * are given, and of an address nothing that may hold a token.
 */

import { readFileSync } from 'node:fs'
import { type Static, Type } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { choicesOf } from '#runtime/start/settings.ts'
import { isMap, parseYaml } from '#runtime/yaml-file/parse-yaml.ts'
import { targetDefaults, targetsFileOf } from '#services/webhooks/targets/targets-file.ts'
import { orNull, textField, time } from '../shapes.ts'

export const targetSettings = Type.Object(
  {
    url: Type.String({ description: 'Scheme and host: what follows may hold a token.' }),
    headers: Type.Array(Type.String(), { description: 'Their names.' }),
    signed: Type.Boolean(),
    events: orNull(Type.Array(Type.String()), 'null: all.'),
    agents: orNull(Type.Array(Type.String()), 'null: all.'),
    ordering: Type.String(),
    on_exhausted: Type.String(),
    retry: Type.Number(),
    backoff_ms: Type.Number(),
    hold_hours: Type.Number(),
  },
  { description: 'As the targets file has them, without its secrets.' },
)

/** Null where the file cannot be read here, or does not name the target. */
export function readTargetSettings(env: Environment, target: string): Static<typeof targetSettings> | null {
  const fields = fieldsOf(env, target)
  if (!fields) return null
  const text = (name: string, otherwise: string) => String(scalar(fields[name]) ?? otherwise)
  const number = (name: string, otherwise: number) => Number(scalar(fields[name]) ?? otherwise)
  return {
    url: shownUrl(text('url', '')),
    headers: isMap(fields.headers) ? Object.keys(fields.headers) : [],
    signed: Object.hasOwn(fields, 'signing_secret'),
    events: listOf(fields.events),
    agents: listOf(fields.agents),
    ordering: text('ordering', 'target'),
    on_exhausted: text('on_exhausted', 'dead_letter'),
    retry: number('retry', targetDefaults.retry),
    backoff_ms: number('backoff_ms', targetDefaults.backoffMs),
    hold_hours: number('hold_hours', targetDefaults.holdHours),
  }
}

function fieldsOf(env: Environment, target: string): Record<string, unknown> | null {
  try {
    const entries = entriesIn(targetsFileOf(env).path) ?? {}
    const own = Object.hasOwn(entries, target) ? entries[target] : null
    return isMap(own) ? own : null
  } catch {
    return null
  }
}

/** Null for a file of another form; throws where it cannot be read. */
function entriesIn(path: string): Record<string, unknown> | null {
  const { value, faults } = parseYaml(readFileSync(path, 'utf8'))
  if (faults.length > 0 || !isMap(value)) return null
  return isMap(value.targets) ? value.targets : {}
}

function scalar(given: unknown): unknown {
  return typeof given === 'object' ? undefined : given
}

function listOf(given: unknown): string[] | null {
  return Array.isArray(given) ? given.map((item) => String(scalar(item) ?? '')) : null
}

/** Paths and queries of receivers often are their secrets. */
export function shownUrl(text: string): string {
  const [, origin = '', rest = ''] = /^([a-z]+:\/\/[^/?#]*)(.*)$/i.exec(text) ?? []
  if (origin === '' || origin.includes('@')) return /^\$\{\w+\}/.exec(text)?.[0] ?? '…'
  return rest === '' || rest === '/' ? origin : `${origin}/…`
}

interface NamedTargets {
  path: string
  /** Null when the file cannot be read here. */
  names: ReadonlySet<string> | null
}

/** Reads only the names: that works without the file's variables, which an operator's shell need not have. */
export function namedTargets(env: Environment): NamedTargets {
  const { path, optional } = targetsFileOf(env)
  try {
    const entries = entriesIn(path)
    return { path, names: entries && new Set(Object.keys(entries)) }
  } catch (error) {
    // On embedded engines the data directory is the platform's own: no file there means no targets.
    const none =
      optional && (error as NodeJS.ErrnoException).code === 'ENOENT' && choicesOf(env).eventLog.embedded
    return { path, names: none ? new Set() : null }
  }
}

export const targetProblems = ['log_unavailable', 'relational_engine_unavailable'] as const
/** In paths. */
export const targetInPath = textField('A target.', 'ops-channel', 200)

export const listedTarget = Type.Object({
  target: Type.String(),
  state: Type.Enum(['idle', 'delivering', 'retrying', 'outage', 'removed', 'new'], { type: 'string' }),
  partition: orNull(Type.Integer()),
  lag: Type.Integer({ description: 'Accepted, not yet delivered or parked.' }),
  head_sequence: orNull(Type.Integer(), 'Of the oldest that waits.'),
  head_age_s: orNull(Type.Number()),
  head: orNull(
    Type.Object({
      sequence: Type.Integer(),
      event: Type.String(),
      agent: Type.String(),
      task_id: Type.String(),
      webhook_id: Type.String(),
      received_at: time,
      attempts: Type.Integer({ description: 'So far.' }),
    }),
    'The delivery that is being tried; those behind it wait for it.',
  ),
  breaker: Type.String(),
  next_attempt_at: orNull(time),
  last_status: orNull(Type.Integer()),
  last_fault: orNull(Type.String()),
  last_sequence: orNull(Type.Integer()),
  last_attempt: orNull(Type.Integer()),
  last_at: orNull(time),
})
export type ListedTarget = Static<typeof listedTarget>
