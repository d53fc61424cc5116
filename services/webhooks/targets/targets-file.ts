/**
 * The targets file: which one it is, the schema of its entries, and how it is loaded and watched. A webhook target as relay and
 * courier use it has its variables filled in.
 */

import { type Static, Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { isLoopbackHost } from '#lib/hosts.ts'
import type { CheckContext } from '#runtime/yaml-file/check.ts'
import {
  choice,
  connectionHeaders,
  entriesFile,
  entryFault,
  headers,
  text,
  url,
} from '#runtime/yaml-file/fields.ts'
import { type NamedFile, namedFile, type WatchedYamlFile, yamlFile } from '#runtime/yaml-file/yaml-file.ts'
import { eventPart, webhookEvents } from '../event.ts'

export interface WebhookTarget {
  name: string
  url: URL
  /** With variables filled in. Never printed. */
  headers: Record<string, string>
  /** Retries after the first attempt. */
  retry: number
  backoffMs: number
  /** Only these events and agents; null for all, of events without those that the platform alone fires. */
  events: readonly string[] | null
  agents: readonly string[] | null
  ordering: 'target' | 'agent'
  /** What happens when an event that keeps failing has used up its retries. */
  onExhausted: 'dead_letter' | 'hold'
  /** During an outage the head of the queue is parked when it is older than this. */
  holdHours: number
  /** Newest first; all of them sign. Empty: no signature. */
  signingSecrets: readonly string[]
}

export interface WebhookTargets {
  /** By name. */
  targets: ReadonlyMap<string, WebhookTarget>
  /** Values that must never be written anywhere: filled-in variables of 8 characters and more, signing secrets. */
  secrets: readonly string[]
  /** Changes when the file's content did. */
  version: string
}

/** The courier sets these, or the connection needs them; in lower case. */
export const platformHeaders: ReadonlySet<string> = new Set([
  ...connectionHeaders,
  'x-idempotency-key',
  'x-sequence',
  'x-previous-sequence',
  'x-attempt',
  'x-webhook-replay',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
])

/** Few retries at short intervals: what takes longer is an outage, which has rules of its own. */
export const targetDefaults = { retry: 5, backoffMs: 100, holdHours: 72 } as const

const listMax = 1_000
const signingSecretsMax = 8
/** Standard Webhooks: between 24 and 64 bytes. */
const signingBytes = { min: 24, max: 64 }

const list = {
  minItems: 1,
  maxItems: listMax,
  fault: `must be a list of 1 to ${listMax} texts; leave it out for all`,
}
const event = choice(webhookEvents, { fault: `must be one of ${webhookEvents.join(', ')}` })
const agent = text({
  check(given: string, { fault }) {
    if (!eventPart.test(given)) fault('must be an agent: 1 to 128 visible ASCII characters')
  },
})

const signing = {
  variables: true,
  check(given: string | string[], { fault, secret }: CheckContext) {
    if (typeof given !== 'string') return
    const encoded = given.replace(/^whsec_/, '')
    secret(given)
    secret(encoded)
    if (isSigningKey(encoded)) return
    fault(
      `must be whsec_ and the base64 of ${signingBytes.min} to ${signingBytes.max} random bytes (openssl rand -base64 32)`,
    )
  },
}

const targetUrl = url({
  example: 'https://host/path',
  schemes: 'must begin with https://',
  problemOf({ protocol, hash, hostname }, { allow_insecure: allowInsecure }) {
    if (hash !== '') return 'has a fragment (#), which is never sent; remove it'
    // A faulty allow_insecure is a fault already: no second one because of it.
    if (protocol === 'https:' || allowInsecure !== false || isLoopbackHost(hostname)) return null
    return 'must begin with https://; for plain HTTP in a network of your own add allow_insecure: true'
  },
})

const targetSchema = Type.Object(
  {
    url: targetUrl,
    headers: headers(platformHeaders),
    retry: Type.Integer({ minimum: 0, maximum: 100, default: targetDefaults.retry }),
    backoff_ms: Type.Integer({ minimum: 1, maximum: 60_000, default: targetDefaults.backoffMs }),
    events: Type.Optional(Type.Array(event, list)),
    agents: Type.Optional(Type.Array(agent, list)),
    ordering: choice(['target', 'agent'], { default: 'target' }),
    on_exhausted: choice(['dead_letter', 'hold'], {
      default: 'dead_letter',
      check(given: string, { parent, fault }) {
        if (given !== 'hold' || parent.ordering !== 'agent') return
        fault('hold needs ordering: target; leave one of them out')
      },
    }),
    hold_hours: Type.Number({ minimum: 0.01, maximum: 8_760, default: targetDefaults.holdHours }),
    signing_secret: Type.Optional(
      Type.Unsafe<string | string[]>({
        ...signing,
        type: ['string', 'array'],
        items: text(signing),
        minItems: 1,
        maxItems: signingSecretsMax,
        fault: `must be one secret, or a list of 1 to ${signingSecretsMax}, the newest first`,
      }),
    ),
    allow_insecure: Type.Boolean({ default: false }),
  },
  { additionalProperties: false, fault: entryFault },
)

function targetOf(name: string, given: Static<typeof targetSchema>): WebhookTarget {
  return {
    name,
    url: new URL(given.url),
    headers: given.headers,
    retry: given.retry,
    backoffMs: given.backoff_ms,
    events: given.events ? [...new Set(given.events)] : null,
    agents: given.agents ? [...new Set(given.agents)] : null,
    ordering: given.ordering,
    onExhausted: given.on_exhausted,
    holdHours: given.hold_hours,
    signingSecrets: [given.signing_secret ?? []].flat(),
  }
}

function isSigningKey(encoded: string): boolean {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return false
  const { length } = Buffer.from(encoded, 'base64')
  return length >= signingBytes.min && length <= signingBytes.max
}

/** Names are used in addresses, query lists and labels of metrics. */
const targetNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

interface TargetsFile {
  targets: Record<string, Static<typeof targetSchema>> | null
}

export type WatchedTargets = WatchedYamlFile<WebhookTargets>

/** An absent file that may be absent means no targets. */
export const {
  load: loadTargets,
  parse: parseTargets,
  watch: watchTargets,
} = yamlFile<TargetsFile, WebhookTargets>({
  name: 'targets file',
  variable: 'WEBHOOK_TARGETS_FILE',
  logName: 'webhooks.targets',
  schema: entriesFile(targetSchema, { key: 'targets', keys: 'names', max: 1_000, check: checkNames }),
  read(file, secrets, version) {
    const entries = Object.entries(file?.targets ?? {})
    return {
      targets: new Map(entries.map(([name, given]) => [name, targetOf(name, given)])),
      secrets,
      version,
    }
  },
  describe: ({ targets }) => ({ targets: targets.size }),
})

function checkNames(targets: object, { fault }: CheckContext): void {
  for (const name of Object.keys(targets)) {
    if (targetNamePattern.test(name)) continue
    fault(
      'is not a name: 1 to 64 letters, digits, dots, underscores or hyphens, beginning with a letter or digit',
      name,
    )
  }
}

/** Settings of relay and courier: both read the same file. */
export const webhookSettings = Type.Object({
  WEBHOOK_TARGETS_FILE: Type.Optional(
    Type.String({
      description:
        'YAML file of the webhook targets, read again when it changes; without it `targets.yaml` in the data directory, which may be absent',
    }),
  ),
})

export type WebhookSettings = Static<typeof webhookSettings>

/** For a service's `check`: throws AppError `invalid_configuration` with the faults of the file. */
export function checkTargetsFile(env: Environment): void {
  const { path, optional } = targetsFileOf(env)
  loadTargets(path, env, { optional })
}

/** The file that the environment names, absolute; only the default one may be absent. */
export function targetsFileOf(env: Environment): NamedFile {
  return namedFile(loadConfig(webhookSettings, env).WEBHOOK_TARGETS_FILE, 'targets.yaml', env)
}
