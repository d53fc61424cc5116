/** What an agent uses of the platform: it recalls what the fleet knows about a question, and notes that it was asked. */

import { existsSync } from 'node:fs'
import { type Client, createClient } from '#client/client.ts'
import { readAddresses } from '#runtime/start/addresses.ts'

/** What an agent of a node uses of the platform. */
export type Memory = Pick<Client, 'embeddings' | 'search' | 'notes'>

export interface Found {
  collection: string
  id: string
  score: number
  title: string
  /** Path of the record that it was made from. */
  path: string | undefined
  /** The beginning of its text, where the payload has one. */
  text: string | undefined
}

const collections = ['knowledgebase', 'fleet_notes'] as const
/** Only notes of the hub: the same collection has audit notes. */
const hubNotes = { must: [{ key: 'tags', match: { value: 'note' } }] }
/** Subjects of the notes that are written here begin so. They are no sources. */
const askedMark = 'Asked: '
const foundMax = 3
/** More than are shown, because some are left out. */
const searchedMax = 12
const questionLengthMax = 2_000

/** The best first. */
export async function recall(memory: Memory, question: string, signal: AbortSignal): Promise<Found[]> {
  const { data } = await memory.embeddings(question.slice(0, questionLengthMax))
  signal.throwIfAborted()
  const vector = data[0]!.embedding
  const found = await Promise.all(
    collections.map(async (collection) => {
      const filter = collection === 'fleet_notes' ? { filter: hubNotes } : {}
      const { results } = await memory.search({ collection, vector, limit: searchedMax, signal, ...filter })
      return results.map((hit) => foundOf(collection, hit))
    }),
  )
  return found
    .flat()
    .filter(({ score, title }) => score > 0 && !title.startsWith(askedMark))
    .sort((a, b) => b.score - a.score)
    .slice(0, foundMax)
}

/** Notes that the agent was asked, not what, nor by whom: everybody reads notes. Resolves with the note's number. */
export async function remember(
  memory: Memory,
  { codename, key }: { codename: string; key: string },
  signal: AbortSignal,
): Promise<number> {
  const note = await memory.notes.create(
    {
      subject: `${askedMark}${codename} answered a question`,
      body: 'The question and the answer are with the run, for those who may see it.',
      priority: 'low',
    },
    { idempotencyKey: key, signal },
  )
  return note.id
}

interface Hit {
  id: string
  score: number
  payload?: Record<string, unknown> | null
}

function foundOf(collection: string, { id, score, payload }: Hit): Found {
  const text = (name: string) => {
    const value = payload?.[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  return {
    collection,
    id,
    score,
    title: text('title') ?? id,
    path: text('mind_path') ?? text('path'),
    text: text('body') ?? text('text'),
  }
}

export interface MemoryParts {
  agentId: string
  privateKeyFile: string
  /** The platform that runs on this data directory, unless its addresses are given. */
  home: string
  vectorUrl?: string | undefined
  hubUrl?: string | undefined
}

/** Limits of the agent are waited for. */
const waitOutLimitsMs = 30_000
const timeoutMs = 20_000

/** The platform may come back at other addresses. */
export function createSharedMemory(parts: MemoryParts) {
  const { agentId, privateKeyFile } = parts
  let held: { client: ReturnType<typeof createClient>; key: string } | undefined
  return {
    /** Throws an Error in plain words. */
    async open(): Promise<Memory> {
      const found = urlsOf(parts)
      if (!found) throw new Error('the platform does not answer')
      if (!existsSync(privateKeyFile))
        throw new Error(`the key of the agent ${agentId} is not where it should be`)
      const key = JSON.stringify(found)
      if (held?.key !== key) {
        await held?.client.close()
        held = {
          client: createClient({ ...found, agentId, privateKeyFile, waitOutLimitsMs, timeoutMs }),
          key,
        }
      }
      return held.client
    },
    async close() {
      await held?.client.close()
    },
  }
}

/** Undefined while the platform does not answer. */
function urlsOf({ home, vectorUrl, hubUrl }: MemoryParts) {
  const running = readAddresses(home)
  const named = (name: string) => (typeof running?.[name] === 'string' ? running[name] : undefined)
  const url = vectorUrl ?? named('vector_url')
  return url === undefined ? undefined : { vectorUrl: url, hubUrl: hubUrl ?? named('hub_url') }
}
