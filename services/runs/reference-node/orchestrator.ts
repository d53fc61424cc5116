/** The orchestrator: takes reports without further work, concludes dispatches from their reports, else searches as the others. */

import type { NodeAgent, Said } from './agent.ts'
import type { Compose } from './model.ts'
import { quoted, quotedLines } from './quoting.ts'
import { answersIn, type Reported, reportIdOf } from './reports.ts'
import type { ReferenceAgent } from './roster.ts'
import { messageText } from './searching-agent.ts'

interface OrchestratorParts {
  agent: ReferenceAgent
  /** Answers what is no report. */
  searching: NodeAgent
  compose: Compose | undefined
  onMissing(what: string, error: unknown): void
}

const sourcesMax = 5
const firstLineMax = 200

export function createOrchestrator({ agent, searching, compose, onMissing }: OrchestratorParts): NodeAgent {
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
        const composed = await composedOf(reports, compose, signal).catch((error: unknown) => {
          signal.throwIfAborted()
          onMissing('model', error)
          return null
        })
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

async function composedOf(
  reports: readonly Reported[],
  compose: Compose | undefined,
  signal: AbortSignal,
): Promise<string | null> {
  if (!compose) return null
  const said = reports.map(({ agent, status, text }) => `${agent} (${status}): ${text}`)
  const content =
    'You conclude what several agents said about one question. Answer in at most 120 words, from their words alone.'
  const text = await compose(
    [
      { role: 'system', content },
      { role: 'user', content: said.join('\n\n') },
    ],
    signal,
  )
  return quotedLines(text)
}
