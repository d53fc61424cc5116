/** Finds who holds a key, for many trades at once: those that come while the database answers are asked about together. */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { agentCaller, type Caller, type CallerRow, callerColumns } from '../callers/caller.ts'

/** The agent that holds a key. */
type KeyHolder = Caller & { agentKeyId: string }

interface KeyHolders {
  /**
   * The agent behind the hash of a key (as `hashAgentKey` makes it); undefined when it is unknown or revoked. Both take the
   * same way, so that the time of the answer says nothing. Rejects with AppError `overloaded`, or with what the database
   * rejects with.
   */
  find(keyHash: string): Promise<KeyHolder | undefined>
}

const batchMax = 100
const waitingMax = 2_000

interface Waiting {
  keyHash: string
  resolve(holder: KeyHolder | undefined): void
  reject(error: unknown): void
}

export function createKeyHolders(relational: Relational): KeyHolders {
  const waiting: Waiting[] = []
  let asking = false

  async function askAll(): Promise<void> {
    asking = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, batchMax)
      try {
        const holders = await readHolders(relational, new Set(batch.map(({ keyHash }) => keyHash)))
        for (const { keyHash, resolve } of batch) resolve(holders.get(keyHash))
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    asking = false
  }

  return {
    find(keyHash) {
      if (waiting.length >= waitingMax) {
        return Promise.reject(
          new AppError('overloaded', 'Too many agent keys are being looked up; try again in a second.', {
            retryAfter: 1,
          }),
        )
      }
      return new Promise((resolve, reject) => {
        waiting.push({ keyHash, resolve, reject })
        if (!asking) void askAll()
      })
    },
  }
}

interface HolderRow extends CallerRow {
  hash: string
  id: string
  revoked: boolean
}

async function readHolders(
  executor: SqlExecutor,
  keyHashes: ReadonlySet<string>,
): Promise<Map<string, KeyHolder>> {
  const { rows } = await executor.query<HolderRow>(
    `select encode(k.hash, 'base64') as hash, k.id, k.revoked_at is not null as revoked,
            ${callerColumns}
     from platform.agent_keys k join platform.agents a on a.uid = k.agent_uid
     where k.hash = any (array(select decode(asked, 'base64') from unnest($1::text[]) as asked))`,
    [[...keyHashes]],
  )
  const live = rows.filter(({ revoked }) => !revoked)
  return new Map(live.map((row) => [row.hash, { ...agentCaller(row), agentKeyId: row.id }]))
}
