/**
 * Who is behind a request, whatever its credential: an agent with a gateway key or an ID token, or a person. Callers are
 * remembered by their credential as long as nothing changed about them: topics of changes are followed, and a change drops
 * what is remembered of its agent or person on every instance.
 */

import type { FastifyRequest } from 'fastify'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import { createScope } from '#lib/resource.ts'
import { type FollowParts, followRecords } from '#runtime/follow/follow-topic.ts'
import type { Topic } from '#topics/topic.ts'
import type { Agent } from '../agents/agents.ts'

type OfAgent = Pick<Agent, 'uid' | 'name' | 'role' | 'access' | 'tier' | 'quota' | 'burst' | 'concurrent'>

export interface Caller extends OfAgent {
  kind: 'agent' | 'person'
  /** The uid where the caller is a person, so that no log shows an e-mail address. */
  agentId: string
  /** The agent key behind an agent's ID token. */
  agentKeyId?: string
  /** SHA-256 of the gateway key behind a request, in base64. */
  gatewayKeyHash?: string
  /** Session of a person who signed in. */
  sessionId?: string
  /** When the ID token or gateway key runs out, in ms since 1970: open streams end then. */
  tokenExpiresAt?: number
  /** A person who may do nothing else before that. */
  mustChangePassword?: boolean
  email?: string
}

/** Columns of `platform.agents a` that make a caller. */
export const callerColumns =
  'a.uid, a.agent_id, a.name, a.role, a.access, a.tier, a.quota, a.burst, a.concurrent'

export type CallerRow = OfAgent & Pick<Agent, 'agent_id'>

/** The agent of a row, which may have further columns. */
export function agentCaller(row: CallerRow): Caller {
  const { uid, agent_id: agentId, name, role, access, tier, quota, burst, concurrent } = row
  return { kind: 'agent', uid, agentId, name, role, access, tier, quota, burst, concurrent }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the handler of a route behind the front door runs. */
    caller: Caller | null
  }
}

/** The caller of a route behind the front door. */
export function callerOf(request: FastifyRequest): Caller {
  if (!request.caller) throw new Error('the route does not ask for a credential')
  return request.caller
}

const rememberedMax = 100_000
const lookupsMax = 256
/** Remembered callers are checked with the database this often, whatever the tails say. */
const recheckMs = 60_000
/** A check waits this long for the database; then the remembered caller serves for a while. */
const recheckTimeoutMs = deadlines.request.keyMs
const recheckAgainMs = 5_000
/** Rounds of asking again because something changed while the database answered. */
const roundsMax = 3

/** What the database knows of a credential. */
export interface Found {
  caller: Caller
  /** In ms since 1970; a credential that the rows do not limit has none. */
  expiresAt?: number
}

interface FollowedCallersParts extends FollowParts {
  /** Their records' keys are agent ids, or uids of people. */
  topics: readonly Topic[]
  /** Asks the database; undefined when the credential is not valid. */
  ask(credential: string): Promise<Found | undefined>
  refused(credential: string): AppError
  /** Called for each change, after the remembered caller is dropped. */
  changed?(owner: string): void
  now?: () => number
}

interface Remembered extends Found {
  /** By `performance.now()`: setting the clock back must not delay the next check. */
  checkedAt: number
}

/**
 * A remembered caller counts only while the tails are current; else, and every 60 s, the database is asked. While that is
 * away, remembered callers serve as long as the tails are current.
 */
export async function openFollowedCallers(parts: FollowedCallersParts) {
  const { now = Date.now } = parts
  const remembered = createMemory()
  const checking = new Map<string, Promise<Caller>>()
  let changes = 0
  const scope = createScope()
  const follow = async (topic: Topic) =>
    scope.add(
      topic.name,
      await followRecords(parts, topic, {
        from: 'end',
        onRecord({ key }) {
          if (!key) return
          const owner = key.toString('utf8')
          changes += 1
          remembered.dropOwner(owner)
          parts.changed?.(owner)
        },
      }),
    )
  const tails = await Promise.all(parts.topics.map(follow)).catch(async (error) => {
    await scope.close()
    throw error
  })
  const current = () => tails.every((tail) => tail.current())
  const slow = () => new AppError('relational_engine_unavailable', 'The database is slow.')
  const isDue = ({ checkedAt }: Remembered) => performance.now() - checkedAt >= recheckMs

  async function check(credential: string, known: Remembered | undefined): Promise<Caller> {
    // After a quiet time the tails have to ask first whether they missed something.
    const sure =
      known !== undefined && (await Promise.all(tails.map((tail) => tail.caughtUp()))).every(Boolean)
    if (sure && remembered.get(credential) === known && !isDue(known)) return known.caller
    let found: Remembered | undefined
    try {
      found = await look(credential, sure)
    } catch (error) {
      if (!known || !isUnavailable(error) || !current()) throw error
      known.checkedAt = performance.now() - recheckMs + recheckAgainMs
      return known.caller
    }
    if (found) return found.caller
    remembered.drop(credential)
    throw parts.refused(credential)
  }

  async function look(credential: string, brief: boolean): Promise<Remembered | undefined> {
    for (let round = 1; ; round++) {
      const seen = changes
      const asked = parts.ask(credential)
      const answer = await (brief ? withTimeout(asked, recheckTimeoutMs, slow) : asked)
      const found = answer && { ...answer, checkedAt: performance.now() }
      if (changes !== seen && round < roundsMax) continue
      // A row read before a change must not be kept after it.
      if (found && changes === seen) remembered.keep(credential, found)
      return found
    }
  }

  return {
    /**
     * The caller behind a credential (any text that names it); at once where it is remembered and the tails are current.
     * Throws (or rejects with) what `refused` makes, `overloaded`, or `relational_engine_unavailable` when only the database
     * knows and it is away.
     */
    find(credential: string): Caller | Promise<Caller> {
      const known = remembered.get(credential)
      if (known) {
        if (known.expiresAt !== undefined && known.expiresAt <= now()) throw parts.refused(credential)
        if (!isDue(known) && current()) return known.caller
      }
      const running = checking.get(credential)
      if (running) return running
      if (checking.size >= lookupsMax) {
        throw new AppError('overloaded', 'Too many credentials are being checked; try again in a second.', {
          retryAfter: 1,
        })
      }
      const started = check(credential, known).finally(() => checking.delete(credential))
      checking.set(credential, started)
      return started
    },
    close: () => scope.close(),
  }
}

/**
 * Callers by credential. They are found by their owner as well: changes come in bursts, for example of many new agents, and
 * each would look through all that is remembered.
 */
function createMemory() {
  const byOwner = new Map<string, Set<string>>()
  const callers = createLru<string, Remembered>(rememberedMax, {
    disposeAfter({ caller }, credential) {
      const credentials = byOwner.get(caller.agentId)
      if (callers.has(credential)) return
      credentials?.delete(credential)
      if (credentials?.size === 0) byOwner.delete(caller.agentId)
    },
  })
  return {
    get: (credential: string) => callers.get(credential),
    drop: (credential: string) => callers.delete(credential),
    keep(credential: string, found: Remembered) {
      callers.set(credential, found)
      const owner = found.caller.agentId
      const credentials = byOwner.get(owner) ?? new Set()
      byOwner.set(owner, credentials.add(credential))
    },
    dropOwner(owner: string) {
      for (const credential of [...(byOwner.get(owner) ?? [])]) callers.delete(credential)
    },
  }
}
