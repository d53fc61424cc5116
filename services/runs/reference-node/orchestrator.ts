/** The orchestrator: takes reports without further work, concludes dispatches from their reports, else searches as the others. */

import { type Compose, composedBy } from './model.ts'
import type { Message, NodeAgent, ReferenceAgent, Said } from './roster.ts'
import { messageText, quoted } from './searching-agent.ts'

interface OrchestratorParts {
  agent: ReferenceAgent
  /** Answers a message that is not a report. */
  searching: NodeAgent
  compose: Compose | undefined
  onMissing(what: string, error: unknown): void
}

const sourcesMax = 5
const firstLineMax = 200

export function createOrchestrator(parts: OrchestratorParts): NodeAgent {
  const { agent, searching } = parts
  return {
    description: agent.role,
    async *answer(message, signal): AsyncGenerator<Said> {
      const reportId = reportIdOf(message)
      const reports = answersIn(messageText(message))
      if (reportId !== undefined) {
        yield { text: `Taken: the report of ${quoted(reportId)}.` }
      } else if (reports.length === 0) {
        yield* searching.answer(message, signal)
      } else {
        const plain = conclusionOf(reports)
        const composed = await composedOf(parts, reports, signal)
        yield { text: composed === null ? plain : `${plain}\n\n${composed}` }
      }
    },
  }
}

/** How many answered, what several of them found, and what each one said; names in it call nobody. */
function conclusionOf(reports: readonly Reported[]): string {
  const answered = reports.filter(({ status }) => status === 'completed')
  const shared = [...sourcesOf(answered)]
    .filter(([, agents]) => agents.size > 1)
    .sort(([, a], [, b]) => b.size - a.size)
    .slice(0, sourcesMax)
    .map(([source, agents]) => `- ${source}, by ${agents.size} of ${answered.length}`)
  const found = [...sourcesOf(answered).keys()]
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
function sourcesOf(reports: readonly Reported[]): Map<string, Set<string>> {
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

function composedOf(
  parts: OrchestratorParts,
  reports: readonly Reported[],
  signal: AbortSignal,
): Promise<string | null> {
  const system =
    'You conclude what several agents said about one question. Answer in at most 120 words, from their words alone.'
  const said = reports.map(({ agent, status, text }) => `${agent} (${status}): ${text}`)
  return composedBy(parts, { system, user: said.join('\n\n') }, signal)
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
