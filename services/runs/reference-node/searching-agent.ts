/** An agent that answers from what the fleet knows: it searches, says what it found and where, and notes at the hub that it was asked. */

import { randomUUID } from 'node:crypto'
import { type Found, type Memory, recall, remember } from './memory.ts'
import { type Compose, composedBy } from './model.ts'
import type { Message, NodeAgent, ReferenceAgent, Said } from './roster.ts'

interface AgentParts {
  agent: ReferenceAgent
  /** Opened with the first message. */
  memory(): Promise<Memory>
  compose: Compose | undefined
  /** What an agent could do without. */
  onMissing(what: string, error: unknown): void
}

const describedMax = 600

export function createSearchingAgent(parts: AgentParts): NodeAgent {
  const { agent, memory, onMissing } = parts
  return {
    description: agent.role,
    async *answer(message, signal): AsyncGenerator<Said> {
      const question = questionOf(message)
      const shared = await memory()
      const found = await recall(shared, question, signal)
      const composed = await composedOf(parts, question, found, signal)
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

export function messageText({ texts }: Message): string {
  return texts.join('\n')
}

const namingMark = 'The message that names you:\n\n'

/** The last line (`author: text`) of a message that quotes the conversation before it. */
function questionOf(message: Message): string {
  const text = messageText(message)
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

async function composedOf(
  parts: AgentParts,
  question: string,
  found: readonly Found[],
  signal: AbortSignal,
): Promise<string | null> {
  const { codename, role } = parts.agent
  const records = found.map(
    ({ title, text }) => `- ${title}${text ? `: ${text.slice(0, describedMax)}` : ''}`,
  )
  const system =
    `You are ${codename}, an agent for this: ${role}. Answer in at most 120 words, from the records alone; ` +
    'say so where they do not hold the answer.'
  const user = `Records:\n${records.join('\n') || '(none)'}\n\nQuestion:\n${question}`
  return composedBy(parts, { system, user }, signal)
}

const shownMax = 100

/** A text of others as inline code, where a name calls nobody: one line, cut, without the marks that would end it. */
export function quoted(text: string, lengthMax = shownMax): string {
  const plain = text.replaceAll('`', "'").replace(/\s+/g, ' ').trim()
  const letters = [...plain]
  return `\`${letters.length > lengthMax ? `${letters.slice(0, lengthMax).join('')}…` : plain || '-'}\``
}
