/** What an agent uses of the platform: it recalls what the fleet knows about a question, and writes the notes that it is asked for. */

import { existsSync } from 'node:fs'
import { type Client, createClient, withoutAuditNotes } from '#client/client.ts'
import { scaleOf } from '#lib/weak-below.ts'
import { readAddresses } from '#runtime/start/addresses.ts'

/** What an agent of a node uses of the platform. */
export type Memory = Pick<Client, 'embeddings' | 'search' | 'scroll' | 'notes' | 'health' | 'stats'> & {
  /** The score below which hits of a question are weak, by the scale of the platform's embedder. */
  weakBelow(vector: number[]): Promise<number>
}

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

const questionLengthMax = 2_000
/** A text without a title is named by its beginning. */
const titleLengthMax = 80

interface Wanted {
  collections: readonly string[]
  /** Over all of them. */
  limit: number
}

export async function embedded(memory: Memory, question: string): Promise<number[]> {
  const { data } = await memory.embeddings(question.slice(0, questionLengthMax))
  return data[0]!.embedding
}

/** The best first, without weak ones. */
export async function recall(
  memory: Memory,
  vector: number[],
  { collections, limit }: Wanted,
  signal: AbortSignal,
): Promise<Found[]> {
  const scored = { limit, scoreThreshold: await memory.weakBelow(vector) }
  const found = await Promise.all(
    collections.map(async (collection) => {
      const filter = withoutAuditNotes(collection)
      const { results } = await memory.search({
        collection,
        vector,
        signal,
        ...scored,
        ...(filter && { filter }),
      })
      return results.map((hit) => foundOf(collection, hit))
    }),
  )
  const best = found
    .flat()
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
  return Promise.all(best.map((one) => withText(memory, one)))
}

/** The point of a note has no text; one that was deleted meanwhile stays without. */
async function withText(memory: Memory, found: Found): Promise<Found> {
  const note = noteNumber(found)
  if (found.text !== undefined || note === undefined) return found
  const text = await memory.notes.get(note).then(
    ({ body }) => body,
    () => undefined,
  )
  return { ...found, text }
}

/** Its number at the hub, where the point is a note. */
export function noteNumber({ collection, id }: Pick<Found, 'collection' | 'id'>): number | undefined {
  const [, number] = (collection === 'fleet_notes' && /^note-(\d{1,15})$/.exec(id)) || []
  return number === undefined ? undefined : Number(number)
}

/** Refused handshakes among the audit notes since `sinceMs` (ms since 1970). */
export async function failedHandshakes(memory: Memory, sinceMs: number, signal: AbortSignal) {
  const read = async (key: string, value: string) => {
    const filter = {
      must: [
        { key: 'tags', match: { value: 'auth' } },
        { key, match: { value } },
      ],
    }
    const page = await memory.scroll({ collection: 'fleet_notes', limit: auditNotesMax, filter, signal })
    const recent = page.points.filter(({ payload }) => Date.parse(String(payload?.updated_at)) >= sinceMs)
    return { recent, isCut: page.next_offset !== null }
  }
  const [refused, strangers] = await Promise.all([
    read('outcome', 'invalid_signature'),
    // The audit counts callers that are no agents under this name, once a minute.
    read('tags', '(unknown)'),
  ])
  return {
    /** Titles of the notes, the oldest first. */
    refused: refused.recent.map(({ id, payload }) => String(payload?.title ?? id)),
    strangers: strangers.recent.reduce((sum, { payload }) => sum + (Number(payload?.count) || 1), 0),
    /** There are more audit notes than were read. */
    isCut: refused.isCut || strangers.isCut,
  }
}

const auditNotesMax = 1_000
const subjectLengthMax = 120

/** Writes the note in the agent's name. The same `key` makes no second note. Resolves with the note's number. */
export async function remember(
  memory: Memory,
  text: string,
  key: string,
  signal: AbortSignal,
): Promise<{ id: number; subject: string }> {
  const letters = [...(text.split('\n', 1)[0] ?? '').replace(/\s+/g, ' ').trim()]
  const subject =
    letters.length > subjectLengthMax ? `${letters.slice(0, subjectLengthMax).join('')}…` : letters.join('')
  const { id } = await memory.notes.create({ subject, body: text }, { idempotencyKey: key, signal })
  return { id, subject }
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
  const whole = text('body') ?? text('text')
  return {
    collection,
    id,
    score,
    title: text('title') ?? whole?.slice(0, titleLengthMax).toWellFormed() ?? id,
    path: text('mind_path') ?? text('path'),
    text: whole,
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
/** A tool says soon that the platform is away. */
const attemptsMax = 4

/** The platform may come back at other addresses. */
export function createSharedMemory(parts: MemoryParts) {
  const { agentId, privateKeyFile } = parts
  let held: { client: Memory & Pick<Client, 'close'>; key: string } | undefined
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
        const client = createClient({
          ...found,
          agentId,
          privateKeyFile,
          waitOutLimitsMs,
          timeoutMs,
          attemptsMax,
        })
        held = { client: { ...client, weakBelow: weakBelowOf(client) }, key }
      }
      return held.client
    },
    async close() {
      await held?.client.close()
    },
  }
}

function weakBelowOf(client: Client): Memory['weakBelow'] {
  const embedder = {
    async embed(texts: string[]) {
      const { data } = await client.embeddings(texts)
      return data.map(({ embedding }) => embedding)
    },
  }
  return async (vector) => (await scaleOf(embedder))(vector)
}

/** Undefined while the platform does not answer. */
function urlsOf({ home, vectorUrl, hubUrl }: MemoryParts) {
  const running = readAddresses(home)
  const named = (name: string) => (typeof running?.[name] === 'string' ? running[name] : undefined)
  const url = vectorUrl ?? named('vector_url')
  return url === undefined ? undefined : { vectorUrl: url, hubUrl: hubUrl ?? named('hub_url') }
}
