/**
 * What the targets file says of one target, without secrets: variables are named, not filled in; of headers only the names
 * are given, and of an address nothing that may hold a token.
 */

import { readFileSync } from 'node:fs'
import type { Environment } from '#lib/config.ts'
import { type Fault, type Located, parseLocated } from '#runtime/yaml-file/located-yaml.ts'
import { targetDefaults } from '#services/webhooks/targets/target-fields.ts'
import { targetsFileOf } from '#services/webhooks/targets/targets-file.ts'

interface TargetSettings {
  /** Scheme and host; what follows is left out, and named variables are kept as they are. */
  url: string
  headers: string[]
  signed: boolean
  /** null: all. */
  events: string[] | null
  agents: string[] | null
  ordering: string
  on_exhausted: string
  retry: number
  backoff_ms: number
  hold_hours: number
}

/** Null where the file cannot be read here, or does not name the target. */
export function readTargetSettings(env: Environment, target: string): TargetSettings | null {
  const fields = fieldsOf(env, target)
  if (!fields) return null
  const text = (name: string, otherwise: string) => String(scalar(fields.get(name)) ?? otherwise)
  const number = (name: string, otherwise: number) => Number(scalar(fields.get(name)) ?? otherwise)
  return {
    url: shownUrl(text('url', '')),
    headers: namesIn(fields.get('headers')),
    signed: fields.has('signing_secret'),
    events: listOf(fields.get('events')),
    agents: listOf(fields.get('agents')),
    ordering: text('ordering', 'target'),
    on_exhausted: text('on_exhausted', 'dead_letter'),
    retry: number('retry', targetDefaults.retry),
    backoff_ms: number('backoff_ms', targetDefaults.backoffMs),
    hold_hours: number('hold_hours', targetDefaults.holdHours),
  }
}

function fieldsOf(env: Environment, target: string): Map<string, Located> | null {
  const faults: Fault[] = []
  let text: string
  try {
    text = readFileSync(targetsFileOf(env).path, 'utf8')
  } catch {
    return null
  }
  const root = parseLocated(text, faults)
  const own = faults.length > 0 ? undefined : member(member(root ?? undefined, 'targets'), target)
  return own?.kind === 'map' ? new Map(own.entries.map(({ name, value }) => [name, value])) : null
}

function member(of: Located | undefined, name: string): Located | undefined {
  return of?.kind === 'map' ? of.entries.find((entry) => entry.name === name)?.value : undefined
}

function scalar(given: Located | undefined): unknown {
  return given?.kind === 'scalar' ? given.value : undefined
}

function namesIn(given: Located | undefined): string[] {
  return given?.kind === 'map' ? given.entries.map(({ name }) => name) : []
}

function listOf(given: Located | undefined): string[] | null {
  return given?.kind === 'list' ? given.items.map((item) => String(scalar(item) ?? '')) : null
}

/** Paths and queries of receivers often are their secrets. */
export function shownUrl(text: string): string {
  const [, origin = '', rest = ''] = /^([a-z]+:\/\/[^/?#]*)(.*)$/i.exec(text) ?? []
  if (origin === '' || origin.includes('@')) return /^\$\{\w+\}/.exec(text)?.[0] ?? '…'
  return rest === '' || rest === '/' ? origin : `${origin}/…`
}
