/** The schema of one target of the targets file. */

import { type Static, Type } from 'typebox'
import { isLoopbackHost } from '#lib/hosts.ts'
import type { CheckContext } from '#runtime/yaml-file/check.ts'
import { choice, entryFault, headers, text, url } from '#runtime/yaml-file/fields.ts'
import { eventPart, webhookEvents } from '../event.ts'
import { platformHeaders, type WebhookTarget } from './target.ts'

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

export const targetSchema = Type.Object(
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

export function targetOf(name: string, given: Static<typeof targetSchema>): WebhookTarget {
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
