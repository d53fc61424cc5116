/** What the platform gives the orchestrator: the report of one run, or the question to conclude a dispatch. */

import type { Message } from './agent.ts'

export interface Reported {
  /** Codename. */
  agent: string
  status: string
  /** What it said, or why it failed. */
  text: string
}

/** The id of the report that the message brings. */
export function reportIdOf({ customMetadata, sessionId }: Message): string | undefined {
  const { report } = customMetadata
  if (!sessionId.startsWith('reports-') || typeof report !== 'object' || report === null) return undefined
  const { reportId } = report as { reportId?: unknown }
  return typeof reportId === 'string' ? reportId : undefined
}

const answersMark = '\n\nWhat they answered:\n\n'
const endMark = '\n\nGive the conclusion.'
const answerPattern = /(?:^|\n\n)([A-Z][A-Z0-9_]{1,31}) \((completed|failed|canceled)\): /g

/** What the agents of a dispatch answered; empty for any other message. */
export function answersIn(text: string): Reported[] {
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
