/**
 * What the targets file says of one target, without secrets: variables are named, not filled in; of headers only the names
 * are given, and of an address nothing that may hold a token.
 */

import { readFileSync } from 'node:fs'
import type { Environment } from '#lib/config.ts'
import { isMap, parseYaml } from '#runtime/yaml-file/parse-yaml.ts'
import { targetDefaults, targetsFileOf } from '#services/webhooks/targets/targets-file.ts'

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
  let text: string
  try {
    text = readFileSync(targetsFileOf(env).path, 'utf8')
  } catch {
    return null
  }
  const { value, faults } = parseYaml(text)
  const targets = faults.length === 0 && isMap(value) && isMap(value.targets) ? value.targets : {}
  const own = Object.hasOwn(targets, target) ? targets[target] : null
  return isMap(own) ? own : null
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
