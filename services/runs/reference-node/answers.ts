/** What each reference agent answers by its role: Markdown with links to the console. This file has those that answer from records. */

import { withTimeout } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import type { Facts } from './facts.ts'
import { headOf, listed, quoted, recordsOf, weaker } from './markdown.ts'
import { embedded, type Memory, recall } from './memory.ts'
import { cipher, nexus, pulse } from './platform-answers.ts'
import { type Answer, type Asked, type Role, usual } from './roster.ts'

interface Question {
  text: string
  /** As the run names its user. */
  userId: string
  memory: Memory
  facts: Facts
  signal: AbortSignal
}

const factTimeoutMs = 5_000
/** The agent's limits may have to be waited out. */
const searchTimeoutMs = 20_000

/** Rejects with the first fault where nothing at all could be read. */
export async function answerBy(codename: string, question: Question): Promise<Answer> {
  const { text, memory, signal } = question
  const faults: { what: string; error: unknown }[] = []
  let isAnyRead = false
  async function read<T>(what: string, from: () => Promise<T>, timeoutMs = factTimeoutMs) {
    try {
      const value = await withTimeout(from(), timeoutMs, () => new Error('no answer came in time'))
      isAnyRead = true
      return value
    } catch (error) {
      signal.throwIfAborted()
      faults.push({ what, error })
      return undefined
    }
  }
  let vector: Promise<number[]> | undefined
  const search: Asked['search'] = (collections, limit) =>
    read(
      'The records',
      async () => {
        vector ??= embedded(memory, text)
        return recall(memory, await vector, { collections, limit }, signal)
      },
      searchTimeoutMs,
    )
  const { paragraphs, found } = await (roles[codename] ?? remembering)({ ...question, read, search })
  if (!isAnyRead && faults.length > 0) throw faults[0]!.error
  const missing = faults.map(
    ({ what, error }) => `${what} could not be read: ${quoted(reasonOf(error), 200)}`,
  )
  return { paragraphs: [...paragraphs, ...new Set(missing)].filter((one) => one !== ''), found }
}

function reasonOf(error: unknown): string {
  const isPlain = error instanceof AppError || (error instanceof Error && error.name === 'Error')
  return isPlain ? (error as Error).message : describeError(error)
}

const documents = ['knowledgebase', 'posts', 'almemsha'] as const
const everywhere = ['fleet_notes', ...documents] as const

const roles: Readonly<Record<string, Role>> = {
  WHALE: whale,
  PULSE: pulse,
  CIPHER: cipher,
  ATLAS: atlas,
  NEXUS: nexus,
  AXON: axon,
}

/** An answer searches so many collections of the fleet's own at most, those with the most points. */
const ownMax = 12

const sizesOf = ({ memory, read }: Asked) => read('The size of the collections', () => memory.stats())

/** Collections that agents and people made, and wrote into. */
function ownOf(stats: Awaited<ReturnType<typeof sizesOf>>): string[] {
  const own = (stats?.collections ?? []).filter(
    ({ collection, points }) => points > 0 && !everywhere.some((one) => one === collection),
  )
  return own
    .sort((a, b) => b.points - a.points)
    .slice(0, ownMax)
    .map(({ collection }) => collection)
}

/** Everything about it, with long passages. */
async function whale(asked: Asked): Promise<Answer> {
  const all = [...everywhere, ...ownOf(await sizesOf(asked))]
  const found = await asked.search(all, 8)
  return { paragraphs: [headOf(found, all), recordsOf(found, 400)], found: found ?? [] }
}

/** Documents with their passages, then notes. */
async function atlas(asked: Asked): Promise<Answer> {
  const stats = await sizesOf(asked)
  const all = [...documents, ...ownOf(stats)]
  const [pages, notes] = await Promise.all([asked.search(all, 5), asked.search(['fleet_notes'], 2)])
  const sizes = (stats?.collections ?? []).filter(({ collection }) => all.includes(collection))
  const size = sizes.reduce((sum, { points }) => sum + points, 0)
  return {
    paragraphs: [
      pages === undefined ? '' : documentsHead(pages.length, stats && size),
      recordsOf(pages, 300),
      notes && notes.length > 0 ? `In notes:\n\n${recordsOf(notes, 200)}` : '',
    ],
    found: [...(pages ?? []), ...(notes ?? [])],
  }
}

/** `size`: how many there are, where it is known. */
function documentsHead(found: number, size: number | undefined): string {
  if (size === 0) return '**There are no documents yet.**'
  const of = size === undefined ? 'documents' : `of ${plural(size, 'document')}`
  if (found === 0) return `**None ${size === undefined ? 'of the documents' : of} speaks of it.** ${weaker}`
  return `**${found} ${of} ${found === 1 ? 'speaks' : 'speak'} of it.**`
}

/** Whom one may ask, and the best records. */
async function axon({ facts, search }: Asked): Promise<Answer> {
  // Without the names of those whom one may ask the answer is whole.
  const [found, nodes] = await Promise.all([search(usual, 3), facts.nodes().catch(() => [])])
  const up = nodes.filter(({ status, slug }) => status === 'up' && slug !== 'axon')
  const names = listed(up.map(({ slug }) => quoted(slug.toUpperCase())))
  const others = up.length > 0 ? `${names} can be asked, and a dispatch asks them all.` : ''
  return { paragraphs: [headOf(found, usual), recordsOf(found, 0), others], found: found ?? [] }
}

/** An agent without a role of its own here. */
async function remembering({ search }: Asked): Promise<Answer> {
  const found = await search(usual, 3)
  return { paragraphs: [headOf(found, usual), recordsOf(found, 0)], found: found ?? [] }
}
