/** The agents of a reference node: they say what the fleet knows and where; the orchestrator concludes what the others said. */

import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { describeError } from '#lib/errors.ts'
import { createSharedMemory, type Found, type Memory, type MemoryParts, recall, remember } from './memory.ts'
import { type Compose, type ComposeParts, composedBy } from './model.ts'
import { type Message, type NodeAgent, orchestratorSlug, type ReferenceAgent, type Said } from './roster.ts'

interface ReferenceParts {
  agents: readonly ReferenceAgent[]
  memoryOf(agent: ReferenceAgent): MemoryParts
  compose: Compose | undefined
  log: Logger
}

/** Nothing is sent before the first message. */
export function openReferenceAgents({ agents, memoryOf, compose, log }: ReferenceParts) {
  const memories = agents.map((agent) => ({ agent, memory: createSharedMemory(memoryOf(agent)) }))
  const entries = memories.map(({ agent, memory }): [string, NodeAgent] => {
    const onMissing = (what: string, error: unknown) =>
      log.warn({ agent: agent.codename, what, reason: describeError(error) }, 'reference-node.without')
    const searching = createSearchingAgent({ agent, memory: () => memory.open(), compose, onMissing })
    if (agent.slug !== orchestratorSlug) return [agent.slug, searching]
    return [agent.slug, createOrchestrator(searching, { compose, onMissing })]
  })
  return {
    /** By slug, which is the name of the app. */
    agents: new Map(entries),
    async close() {
      await Promise.all(memories.map(({ memory }) => memory.close()))
    },
  }
}

interface AgentParts extends ComposeParts {
  agent: ReferenceAgent
  /** Opened with the first message. */
  memory(): Promise<Memory>
}

const describedMax = 600

/** Searches, says what it found and where, and notes at the hub that it was asked. */
export function createSearchingAgent(parts: AgentParts): NodeAgent {
  const { agent, memory, onMissing } = parts
  return {
    description: agent.role,
    async *answer(message, signal): AsyncGenerator<Said> {
      const question = questionOf(message)
      const shared = await memory()
      const found = await recall(shared, question, signal)
      const composed = await composedBy(parts, promptOf(agent, question, found), signal)
      const answer = [opening(found), ...(composed === null ? [] : [composed]), ...sourcesOf(found)].join(
        '\n\n',
      )
      yield { text: answer, partial: true }
      let end = ''
      try {
        const id = await remember(shared, { codename: agent.codename, key: randomUUID() }, signal)
        end = `\n\nNoted as note ${id}.`
      } catch (error) {
        signal.throwIfAborted()
        onMissing('note', error)
        end = '\n\nIt could not be noted.'
      }
      yield { text: end, partial: true }
      yield { text: `${answer}${end}` }
    },
  }
}

const namingMark = 'The message that names you:\n\n'

/** The last line (`author: text`) of a message that quotes the conversation before it. */
function questionOf(message: Message): string {
  const text = message.texts.join('\n')
  const from = text.lastIndexOf(namingMark)
  return from < 0 ? text : text.slice(from + namingMark.length).replace(/^[A-Za-z0-9_]{1,32}: /, '')
}

function opening(found: readonly Found[]): string {
  return found.length === 0
    ? 'I found nothing about it in the knowledgebase or in the notes.'
    : 'This is what I found in the knowledgebase and in the notes:'
}

/** Titles are quoted: names in them call nobody. */
function sourcesOf(found: readonly Found[]): string[] {
  if (found.length === 0) return []
  const lines = found.map(({ collection, id, score, title, path }, n) => {
    const place = path === undefined ? '' : `, ${quoted(path)}`
    return `${n + 1}. ${quoted(title)} (score ${score.toFixed(2)}, ${collection}, id ${quoted(id)}${place})`
  })
  return [lines.join('\n')]
}

function promptOf({ codename, role }: ReferenceAgent, question: string, found: readonly Found[]) {
  const records = found.map(
    ({ title, text }) => `- ${title}${text ? `: ${text.slice(0, describedMax)}` : ''}`,
  )
  const system =
    `You are ${codename}, an agent for this: ${role}. Answer in at most 120 words, from the records alone; ` +
    'say so where they do not hold the answer.'
  const user = `Records:\n${records.join('\n') || '(none)'}\n\nQuestion:\n${question}`
  return { system, user }
}

const shownMax = 100

/** A text of others as inline code, where a name calls nobody: one line, cut, without the marks that would end it. */
function quoted(text: string, lengthMax = shownMax): string {
  const plain = text.replaceAll('`', "'").replace(/\s+/g, ' ').trim()
  const letters = [...plain]
  return `\`${letters.length > lengthMax ? `${letters.slice(0, lengthMax).join('')}…` : plain || '-'}\``
}

const sourcesMax = 5
const firstLineMax = 200

/** Takes reports without further work, and concludes dispatches; other messages are for the one that searches. */
export function createOrchestrator(searching: NodeAgent, parts: ComposeParts): NodeAgent {
  return {
    description: searching.description,
    async *answer(message, signal): AsyncGenerator<Said> {
      const reportId = reportIdOf(message)
      const reports = answersIn(message.texts.join('\n'))
      if (reportId !== undefined) {
        yield { text: `Taken: the report of ${quoted(reportId)}.` }
      } else if (reports.length === 0) {
        yield* searching.answer(message, signal)
      } else {
        const plain = conclusionOf(reports)
        const composed = await composedBy(parts, conclusionPrompt(reports), signal)
        yield { text: composed === null ? plain : `${plain}\n\n${composed}` }
      }
    },
  }
}

/** How many answered, what several of them found, and what each one said; names in it call nobody. */
function conclusionOf(reports: readonly Reported[]): string {
  const answered = reports.filter(({ status }) => status === 'completed')
  const shared = [...sharedSources(answered)]
    .filter(([, agents]) => agents.size > 1)
    .sort(([, a], [, b]) => b.size - a.size)
    .slice(0, sourcesMax)
    .map(([source, agents]) => `- ${source}, by ${agents.size} of ${answered.length}`)
  const found = [...sharedSources(answered).keys()]
  const head =
    answered.length === reports.length
      ? `Conclusion: all ${reports.length} agents answered.`
      : `Conclusion: ${answered.length} of ${reports.length} agents answered.`
  return [
    head,
    shared.length > 0 ? `Found by several of them:\n${shared.join('\n')}` : '',
    shared.length === 0 && found.length > 0 ? `Found: ${found.slice(0, sourcesMax).join('; ')}.` : '',
    linesOf(reports).join('\n'),
  ]
    .filter((paragraph) => paragraph !== '')
    .join('\n\n')
}

/** Records that the reference nodes name in their answers, each with the agents that named it. */
function sharedSources(reports: readonly Reported[]): Map<string, Set<string>> {
  const sources = new Map<string, Set<string>>()
  for (const { agent, text } of reports) {
    for (const [, title, collection, id] of text.matchAll(sourcePattern)) {
      const source = `\`${title}\` (${collection}, id \`${id}\`)`
      sources.set(source, (sources.get(source) ?? new Set()).add(agent))
    }
  }
  return sources
}

const sourcePattern = /^\d+\. `([^`\n]{1,200})` \(score [\d.-]{1,8}, (\w{1,40}), id `([^`\n]{1,600})`/gm

/** Agents that said the same share a line. */
function linesOf(reports: readonly Reported[]): string[] {
  const agents = new Map<string, string[]>()
  for (const { agent, status, text } of reports) {
    const line = text.split('\n').find((one) => one.trim() !== '') ?? ''
    const said =
      status === 'completed'
        ? `said ${quoted(line, firstLineMax)}`
        : `${status}: ${quoted(text, firstLineMax)}`
    agents.set(said, [...(agents.get(said) ?? []), quoted(agent)])
  }
  return [...agents].map(([said, names]) => `- ${names.join(', ')} ${said}`)
}

function conclusionPrompt(reports: readonly Reported[]) {
  const system =
    'You conclude what several agents said about one question. Answer in at most 120 words, from their words alone.'
  const said = reports.map(({ agent, status, text }) => `${agent} (${status}): ${text}`)
  return { system, user: said.join('\n\n') }
}

interface Reported {
  /** Codename. */
  agent: string
  status: string
  /** What it said, or why it failed. */
  text: string
}

/** The id of the report that the message brings. */
function reportIdOf({ customMetadata, sessionId }: Message): string | undefined {
  const { report } = customMetadata
  if (!sessionId.startsWith('reports-') || typeof report !== 'object' || report === null) return undefined
  const { reportId } = report as { reportId?: unknown }
  return typeof reportId === 'string' ? reportId : undefined
}

const answersMark = '\n\nWhat they answered:\n\n'
const endMark = '\n\nGive the conclusion.'
const answerPattern = /(?:^|\n\n)([A-Z][A-Z0-9_]{1,31}) \((completed|failed|canceled)\): /g

/** What the agents of a dispatch answered; empty for any other message. */
function answersIn(text: string): Reported[] {
  const from = text.indexOf(answersMark)
  if (from < 0 || !text.endsWith(endMark)) return []
  const answers = text.slice(from + answersMark.length, -endMark.length)
  const heads = [...answers.matchAll(answerPattern)]
  return heads.map(({ 0: head, 1: agent, 2: status, index }, n) => ({
    agent: agent!,
    status: status!,
    text: answers.slice(index + head.length, heads[n + 1]?.index).trim(),
  }))
}
