/** The steps of the tour in which agents talk, and those that write to the hub. */

import type { RunEvent } from '#client/client.ts'
import { AppError } from '#lib/errors.ts'
import { indented, keepingLines } from '#lib/terminal-text.ts'
import { line } from '../output.ts'
import { dispatched, isWithoutAgents } from './example-agents.ts'
import { type Said, type Tour, timed } from './tour-parts.ts'

const question = 'Where is the one-time password of the first admin? PULSE, do you know?'
const toAll = 'How do agents call each other by mentions?'
const shownLines = 6
const shownColumns = 110

export async function talk(tour: Tour): Promise<void> {
  const asked = await timed(
    tour,
    'ask an agent, and another one by name',
    () => askTwo(tour),
    (answers) => (answers ? `${answers.length} answers` : 'no agents run here'),
  )
  if (!asked) return
  show(tour, question, asked)
  const { answered, conclusion } = await timed(
    tour,
    'ask all agents',
    () => askAll(tour),
    (all) => `${all.answered} answered, AXON concluded`,
  )
  if (answered > 0) show(tour, toAll, [conclusion])
}

async function askTwo({ cli, client }: Tour): Promise<Said[] | undefined> {
  let answers: Said[]
  try {
    const { events } = await client.runs.run('atlas', question, { signal: cli.signal })
    answers = events.map(saidOf)
  } catch (error) {
    if (isWithoutAgents(error)) return undefined
    throw error
  }
  for (const wanted of ['ATLAS', 'PULSE']) {
    if (!answers.some(({ agent }) => agent === wanted)) {
      throw new AppError('agent_error', `${wanted} did not answer.`)
    }
  }
  return answers
}

async function askAll({ cli, client }: Tour): Promise<{ answered: number; conclusion: Said }> {
  const { goalId, ended } = await dispatched(client, toAll, cli.signal)
  if (ended.status !== 'completed' || ended.result === null) {
    throw new AppError(
      'agent_error',
      `The dispatch ${goalId} is ${ended.status}: \`flotilla runs show ${goalId}\`.`,
    )
  }
  return { answered: ended.runs.length, conclusion: { agent: 'AXON', text: ended.result } }
}

function saidOf({ author, content }: RunEvent): Said {
  return { agent: author, text: (content?.parts ?? []).map(({ text }) => text ?? '').join('') }
}

function show({ result, say }: Tour, asked: string, answers: readonly Said[]): void {
  say(line`\n  ${asked}`)
  for (const { agent, text } of answers) say(line`  ${agent}: ` + indented(beginningOf(text), '    '))
  say('')
  result.said.push(...answers.map(({ agent, text }) => ({ agent, text: beginningOf(text) })))
}

/** The first lines of a text, without those that are empty. */
export function beginningOf(text: string): string {
  const lines = keepingLines(text)
    .split('\n')
    .filter((one) => one.trim() !== '')
  const cut = lines
    .slice(0, shownLines)
    .map((one) => (one.length > shownColumns ? `${one.slice(0, shownColumns).toWellFormed()}…` : one))
  return [...cut, ...(lines.length > shownLines ? ['…'] : [])].join('\n')
}

/** A question and its answer in a thread, and a goal that is completed. */
export async function writeRecords(tour: Tour): Promise<void> {
  const { cli, client, result } = tour
  const { signal } = cli
  await timed(
    tour,
    'write a note, and answer it in its thread',
    async () => {
      const { query, hits } = result.searches[0]!
      const asked = await client.notes.create(
        { subject: query, body: 'Asked by the tour: which page of the docs says it?' },
        { signal },
      )
      const answer = await client.notes.create(
        {
          subject: `Re: ${query}`,
          body: `${hits[0]!.title}, in \`${hits[0]!.path}\` (score ${hits[0]!.score.toFixed(3)}).`,
          parent_id: asked.id,
        },
        { signal },
      )
      await client.notes.update(asked.id, { status: 'resolved' }, { signal })
      result.notes.push(asked.id, answer.id)
    },
    () => `notes ${result.notes.join(' and ')}`,
  )
  await timed(
    tour,
    'make a goal, and complete it',
    async () => {
      const goal = await client.goals.create(
        { title: 'Take the tour', description: 'Store the docs, find them again, talk to the agents.' },
        { signal },
      )
      await client.goals.update(goal.id, { status: 'active' }, { signal })
      const { status } = await client.goals.update(goal.id, { status: 'completed' }, { signal })
      result.goals.push(goal.id)
      return status
    },
    (status) => `goal ${result.goals[0]}, ${status}`,
  )
}
