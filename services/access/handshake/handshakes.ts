/** Handshakes, within limits: an agent proves that it has its private key and gets a gateway key. Challenges and keys are rows. */

import { hash, randomBytes } from 'node:crypto'
import { type Relational, type SqlExecutor, sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { clientNetwork } from '#lib/hosts.ts'
import { createLru } from '#lib/lru.ts'
import { createSlidingWindows, refuseFor } from '#lib/sliding-window.ts'
import { agentIdPattern } from '../agents/agents.ts'
import { isSignedBy, publicKeyObject } from '../agents/key-pair.ts'

export const challengeTtlS = 60
const pendingPerAddressMax = 8
const pendingPerAgentMax = 256
/** Challenges that one signature is compared with: those of the caller's network, and a few for callers that move. */
const triedMax = 16
const knownAgentsMax = 10_000
const signaturePattern = /^[0-9a-fA-F]{128}$/

interface Challenge {
  serverNonce: string
  fingerprint: string
}

interface IssuedKey {
  apiKey: string
  expiresInS: number
}

export type Handshakes = ReturnType<typeof openHandshakes>

/** `admitAddress` and `admitAgent` come first, before anything is looked up. `keyTtlS` is the lifetime of a gateway key. */
export function openHandshakes({ relational, keyTtlS }: { relational: Relational; keyTtlS: number }) {
  const known = createLru<string, true>(knownAgentsMax, { ttl: 60_000 })
  const limits = createHandshakeLimits()
  return {
    ...limits,
    /** Throws AppError `unknown_agent`. A table that is full pushes out an older challenge: see `makeRoom`. */
    async challenge(agentId: string, clientNonce: string, address: string): Promise<Challenge> {
      if (!agentIdPattern.test(agentId)) throw unknownAgent()
      const serverNonce = randomBytes(32).toString('hex')
      const fingerprint = await relational
        .transaction((tx) =>
          writeChallenge(tx, { agentId, clientNonce, serverNonce, address: clientNetwork(address) }),
        )
        .catch((error) => {
          if (error instanceof AppError && error.code === 'unknown_agent') known.delete(agentId)
          throw error
        })
      known.set(agentId, true)
      return { serverNonce, fingerprint }
    },
    /** Throws AppError `invalid_signature` whatever is wrong, `rate_limited` where the agent's failures are used up. */
    async verify(agentId: string, signature: string, address: string): Promise<IssuedKey> {
      if (!agentIdPattern.test(agentId)) throw invalidSignature()
      const pending = await readPending(relational, agentId, clientNetwork(address))
      if (pending.length === 0) {
        known.delete(agentId)
        throw invalidSignature()
      }
      const failed = limits.admitVerification(agentId, address)
      const matching = await findSigned(pending, signature)
      if (!matching) {
        failed()
        throw invalidSignature()
      }
      const apiKey = `vk_live_${randomBytes(32).toString('base64url')}`
      await issue(relational, matching, apiKey, keyTtlS)
      return { apiKey, expiresInS: keyTtlS }
    },
    /** As `isKnown`, without asking the database: a flood of refusals must not reach it. */
    wasKnown: (agentId: string) => known.has(agentId),
    /** True when the agent exists, as far as this instance learned lately or the database says. */
    async isKnown(agentId: string): Promise<boolean> {
      if (!agentIdPattern.test(agentId)) return false
      if (known.has(agentId)) return true
      const { rowCount } = await relational.query(
        'select 1 from platform.agents where lower(agent_id) = lower($1) and agent_id = $1',
        [agentId],
      )
      if (rowCount > 0) known.set(agentId, true)
      return rowCount > 0
    },
  }
}

/**
 * The agent's row is locked while its challenges are counted, so that instances cannot exceed the limits together. `address` is
 * as `clientNetwork` gives it.
 */
async function writeChallenge(
  tx: SqlExecutor,
  challenge: Record<'agentId' | 'clientNonce' | 'serverNonce' | 'address', string>,
): Promise<string> {
  const { rows } = await tx.query<{ uid: string; public_key_fingerprint: string }>(
    `select uid, public_key_fingerprint from platform.agents
     where lower(agent_id) = lower($1) and agent_id = $1 for no key update`,
    [challenge.agentId],
  )
  const agent = rows[0]
  if (!agent) throw unknownAgent()
  await tx.query('delete from platform.challenges where agent_uid = $1 and expires_at <= now()', [agent.uid])
  await makeRoom(tx, agent.uid, challenge.address)
  await tx.query(
    `insert into platform.challenges (agent_uid, address, client_nonce, server_nonce, expires_at)
     values ($1, $2, $3, $4, now() + make_interval(secs => $5))`,
    [agent.uid, challenge.address, challenge.clientNonce, challenge.serverNonce, challengeTtlS],
  )
  return agent.public_key_fingerprint
}

/**
 * A full table pushes out the oldest challenge of the address that holds the most of the agent's, so that a flood pushes
 * out its own first and no flood keeps others from their handshakes. An address that is full pushes out its own.
 */
async function makeRoom(tx: SqlExecutor, agentUid: string, address: string): Promise<void> {
  await tx.query(
    `delete from platform.challenges where id in (
       select id from (
         select id, count(*) over () >= $3 as full_table, count(*) over (partition by address) as held,
                address = $2 and count(*) over (partition by address) >= $4 as full_address
         from platform.challenges where agent_uid = $1
       ) as pending
       where full_table or full_address
       order by full_address desc, held desc, id
       limit 1
     )`,
    [agentUid, address, pendingPerAgentMax, pendingPerAddressMax],
  )
}

interface Pending {
  uid: string
  version: number
  public_key: Buffer
  /** Null when the agent has no pending challenge. */
  id: number | null
  client_nonce: string
  server_nonce: string
}

/** At most `triedMax` of the agent's challenges, those of this address first; no row when there is no such agent. */
async function readPending(relational: Relational, agentId: string, address: string): Promise<Pending[]> {
  const { rows } = await relational.query<Pending>(
    `select a.uid, a.version, a.public_key, c.id, c.client_nonce, c.server_nonce
     from platform.agents a
     left join platform.challenges c on c.agent_uid = a.uid and c.expires_at > now()
     where lower(a.agent_id) = lower($1) and a.agent_id = $1
     order by (c.address = $2) desc, c.id desc limit ${triedMax}`,
    [agentId, address],
  )
  return rows
}

/** One after the other: a call takes one thread of the pool at a time. */
async function findSigned(pending: Pending[], signature: string): Promise<Pending | undefined> {
  const first = pending[0]
  if (!first || !signaturePattern.test(signature)) return undefined
  const key = publicKeyObject(first.public_key)
  const bytes = Buffer.from(signature, 'hex')
  for (const one of pending) {
    if (one.id !== null && (await isSignedBy(key, one.client_nonce + one.server_nonce, bytes))) return one
  }
  return undefined
}

/**
 * Consumes the challenge and stores the key's hash in one step. A share lock on the agent's row keeps a rotation or deletion
 * away: it comes before (then its version differs and no key is given) or after (and deletes this key).
 */
async function issue(relational: Relational, matching: Pending, apiKey: string, ttlS: number): Promise<void> {
  try {
    await relational.transaction(async (tx) => {
      const agent = await tx.query(
        'select 1 from platform.agents where uid = $1 and version = $2 for share',
        [matching.uid, matching.version],
      )
      const used = await tx.query('delete from platform.challenges where id = $1 and expires_at > now()', [
        matching.id as number,
      ])
      if (agent.rowCount === 0 || used.rowCount === 0) throw invalidSignature()
      await tx.query('delete from platform.gateway_keys where agent_uid = $1 and expires_at <= now()', [
        matching.uid,
      ])
      await tx.query(
        `insert into platform.gateway_keys (hash, agent_uid, shown, expires_at)
         values ($1, $2, $3, now() + make_interval(secs => $4))`,
        [hash('sha256', apiKey, 'buffer'), matching.uid, apiKey.slice(8, 14), ttlS],
      )
    })
  } catch (error) {
    // foreign_key_violation: the agent was deleted at this moment.
    if (sqlState(error) === '23503') throw invalidSignature()
    throw error
  }
}

function unknownAgent(): AppError {
  return new AppError('unknown_agent', 'No agent of this id is provisioned.')
}

function invalidSignature(): AppError {
  return new AppError(
    'invalid_signature',
    'Begin with a new handshake and sign client nonce and server nonce.',
  )
}

const perAgentAndAddress = [
  { count: 20, windowMs: 1_000 },
  { count: 300, windowMs: 60_000 },
]
const perAddress = [{ count: 100, windowMs: 1_000 }]
/** Signatures of an agent that nobody made, from wherever they come. */
const failuresPerAgent = [{ count: 100, windowMs: 60_000 }]
const failuresPerAgentAndAddress = [{ count: 1, windowMs: 60_000 }]
const keysMax = 20_000
const handshakes = 'handshakes'
/** Longer names are no agent ids. */
const namedLengthMax = 65

export type HandshakeLimits = ReturnType<typeof createHandshakeLimits>

/** A call that its address may make. */
export interface AdmittedCall {
  /**
   * Counts it for the agent that it names, whatever that is, too; before anything of it is checked. Throws AppError
   * `rate_limited`: then it takes nothing from its address.
   */
  admitAgent(named: unknown): void
}

/** All addresses of an IPv6 /64 count as one. */
export function createHandshakeLimits(now: () => number = () => performance.now()) {
  const addresses = createSlidingWindows(perAddress, keysMax)
  const agents = createSlidingWindows(perAgentAndAddress, keysMax)
  const failures = createSlidingWindows(failuresPerAgent, keysMax)
  const failuresHere = createSlidingWindows(failuresPerAgentAndAddress, keysMax)
  return {
    /**
     * The result counts a signature that was wrong. Throws AppError `rate_limited` where too many of the agent's were lately,
     * and one of this address: the agent itself, which signs rightly, is not kept out by a flood from elsewhere.
     */
    admitVerification(agentId: string, address: string): () => void {
      const pair = `${clientNetwork(address)} ${agentId}`
      const nowMs = now()
      if (failuresHere.waitMs(pair, nowMs) > 0) refuseFor(failures.waitMs(agentId, nowMs), 'wrong signatures')
      return () => {
        failures.count(agentId, now())
        failuresHere.count(pair, now())
      }
    },
    /** Counts a call of this address, before anything of it is read. Throws AppError `rate_limited`. */
    admitAddress(address: string): AdmittedCall {
      const client = clientNetwork(address)
      const calledAt = now()
      refuseFor(addresses.waitMs(client, calledAt), handshakes)
      addresses.count(client, calledAt)
      return {
        admitAgent(named) {
          // Invalid agent ids count together: nobody has such a name.
          const agent = typeof named === 'string' ? named.slice(0, namedLengthMax) : ''
          const pair = `${client} ${agent}`
          const nowMs = now()
          const waitMs = agents.waitMs(pair, nowMs)
          if (waitMs > 0) addresses.uncount(client, calledAt)
          refuseFor(waitMs, handshakes)
          agents.count(pair, nowMs)
        },
      }
    },
  }
}
