/** Limits and what is left of them in, the RateLimit and RateLimit-Policy fields of draft-ietf-httpapi-ratelimit-headers out. */

import { LRUCache } from 'lru-cache'
import type { Standing } from './limiter.ts'
import type { LimitRefusal } from './refusal.ts'
import type { AgentLimits } from './tiers.ts'

const policiesMax = 1_000
const policies = new LRUCache<string, string>({ max: policiesMax })

export function rateLimitPolicy({ day, rate, slots }: AgentLimits): string {
  const key = `${day} ${rate} ${slots}`
  const known = policies.get(key)
  if (known !== undefined) return known
  const made = [
    ...(rate === null ? [] : [`"second";q=${rate};w=1`]),
    ...(day === null ? [] : [`"day";q=${day};w=86400`]),
    ...(slots === null ? [] : [`"concurrent";q=${slots};qu="concurrent-requests"`]),
  ].join(', ')
  policies.set(key, made)
  return made
}

/** What is left of the day; a refusal names the limit that was met first. */
export function rateLimitHeader({ dayRest, dayLeftMs }: Standing, refusal?: LimitRefusal): string {
  const day = dayRest === null ? undefined : `"day";r=${dayRest};t=${Math.ceil(dayLeftMs / 1_000)}`
  if (!refusal) return day ?? ''
  const met = `"${refusal.limit}";r=0;t=${Math.ceil(refusal.retryAfter ?? 0)}`
  return refusal.limit === 'day' || day === undefined ? met : `${met}, ${day}`
}
