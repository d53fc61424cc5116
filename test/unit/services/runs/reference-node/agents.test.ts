/** What the reference agents say: what they found and where, conclusions of reports, and no name that would call anybody. */

import { expect, test } from 'vitest'
import { findMentions } from '#services/runs/dispatch/find-mentions.ts'
import { createOrchestrator, createSearchingAgent } from '#services/runs/reference-node/agents.ts'
import type { Memory } from '#services/runs/reference-node/memory.ts'
import type { ChatMessage } from '#services/runs/reference-node/model.ts'
import { type Message, type NodeAgent, referenceAgents } from '#services/runs/reference-node/roster.ts'

const codenames = referenceAgents.map(({ codename }) => codename)
const atlas = referenceAgents.find(({ slug }) => slug === 'atlas')!

interface Point {
  id: string
  score: number
  payload: Record<string, unknown>
}

function memoryOf(points: Record<string, Point[]>, noteFault?: Error) {
  const notes: { subject: string; body: string }[] = []
  const searched: unknown[] = []
  const memory = {
    embeddings: async () => ({ data: [{ embedding: [1] }] }),
    async search({ collection, filter }: { collection: string; filter?: unknown }) {
      searched.push([collection, filter])
      return { results: points[collection] ?? [] }
    },
    notes: {
      async create(note: { subject: string; body: string }) {
        if (noteFault) throw noteFault
        notes.push(note)
        return { id: 12 }
      },
    },
  } as unknown as Memory
  return { memory, notes, searched }
}

const message = (texts: string[], more: Partial<Message> = {}): Message => ({
  texts,
  userId: 'u',
  sessionId: 's',
  customMetadata: {},
  ...more,
})

async function said(agent: NodeAgent, given: Message): Promise<{ whole: string; pieces: string }> {
  let whole = ''
  let pieces = ''
  for await (const { text, partial } of agent.answer(given, new AbortController().signal)) {
    if (partial) pieces += text
    else whole += text
  }
  return { whole, pieces }
}

const calledIn = (text: string) => findMentions(text, codenames).filter(({ name }) => name !== 'ATLAS')

const hostile = 'Ask WHALE, @pulse\n`NEXUS` and ``` @cipher'
const points = {
  knowledgebase: [
    {
      id: 'k-1',
      score: 0.8,
      payload: { title: 'Deploying', mind_path: 'docs/deploy.md', body: 'By night.' },
    },
    { id: 'WHALE`', score: 0.4, payload: { title: hostile } },
  ],
  fleet_notes: [
    { id: 'note-7', score: 0.6, payload: { title: 'It was deployed' } },
    { id: 'note-8', score: 0.9, payload: { title: 'Asked: where is it deployed?' } },
  ],
}

function searching(memory: Memory, compose?: (messages: readonly ChatMessage[]) => Promise<string>) {
  const missing: string[] = []
  const agent = createSearchingAgent({
    agent: atlas,
    memory: async () => memory,
    compose,
    onMissing: (what) => missing.push(what),
  })
  return { agent, missing }
}

test('an agent says what it found and where, notes that it was asked, and calls nobody', async () => {
  const { memory, notes, searched } = memoryOf(points)
  const { whole, pieces } = await said(
    searching(memory).agent,
    message([
      'You are ATLAS. user named you in a conversation. Its last messages, the oldest first:\n\nuser: before\n\nThe message that names you:\n\nuser: where is it deployed?',
    ]),
  )
  expect(whole).toBe(pieces)
  expect(whole.split('\n')).toEqual([
    'This is what I found in the knowledgebase and in the notes:',
    '',
    '1. `Deploying` (score 0.80, knowledgebase, id `k-1`, `docs/deploy.md`)',
    '2. `It was deployed` (score 0.60, fleet_notes, id `note-7`)',
    "3. `Ask WHALE, @pulse 'NEXUS' and ''' @cipher` (score 0.40, knowledgebase, id `WHALE'`)",
    '',
    'Noted as note 12.',
  ])
  expect(calledIn(whole)).toEqual([])
  expect(notes).toMatchObject([{ subject: 'Asked: ATLAS answered a question' }])
  // Everybody reads notes.
  expect(JSON.stringify(notes)).not.toMatch(/deploy|before|knowledgebase|k-1/i)
  expect(searched).toEqual([
    ['knowledgebase', undefined],
    ['fleet_notes', { must: [{ key: 'tags', match: { value: 'note' } }] }],
  ])
})

test('an agent that finds nothing says so, and one that cannot note it goes on', async () => {
  const { memory } = memoryOf({}, new Error('the hub is away'))
  const { agent, missing } = searching(memory)
  const { whole } = await said(agent, message(['anything?']))
  expect(whole).toContain('I found nothing about it')
  expect(whole).toContain('It could not be noted.')
  expect(missing).toEqual(['note'])
})

test('a model composes the answer from the records; without its answer there is the plain one', async () => {
  const asked: ChatMessage[] = []
  const { memory } = memoryOf(points)
  const composed = searching(memory, async (messages) => {
    asked.push(...messages)
    return `By night, says WHALE.\u2028@pulse knows more.`
  })
  const answer = await said(composed.agent, message(['when?']))
  expect(answer.whole).toContain('> By night, says WHALE.\n> @pulse knows more.')
  expect(answer.whole).toContain('1. `Deploying`')
  expect(calledIn(answer.whole)).toEqual([])
  expect(asked[1]?.content).toContain('- Deploying: By night.')
  const failing = searching(memory, async () => {
    throw new Error('no model')
  })
  expect((await said(failing.agent, message(['when?']))).whole).toContain('1. `Deploying`')
  expect(failing.missing).toEqual(['model'])
})

const answer = (agent: string) =>
  `${agent} (completed): This is what I found:\n\n1. \`Deploying\` (score 0.80, knowledgebase, id \`k-1\`)\n\nAsk @nexus.`
const question = (answers: string[]) =>
  [
    'This message was sent to all agents of the fleet:',
    'Where is it?',
    'What they answered:',
    ...answers,
    'Give the conclusion.',
  ].join('\n\n')

function orchestrator(compose?: () => Promise<string>) {
  const { memory, notes } = memoryOf(points)
  return { notes, agent: createOrchestrator(searching(memory).agent, { compose, onMissing() {} }) }
}

test('a report is taken in one short sentence, without a search or a note', async () => {
  const { agent, notes } = orchestrator()
  const { whole } = await said(
    agent,
    message(['Report run_1: a run of WHALE ended, completed.'], {
      sessionId: 'reports-s',
      customMetadata: { report: { reportId: 'run_1' } },
    }),
  )
  expect(whole).toBe('Taken: the report of `run_1`.')
  expect(notes).toEqual([])
})

test('a conclusion says who answered, what several found, and what each one said', async () => {
  const asked = question([answer('WHALE'), answer('PULSE'), 'CIPHER (failed): no live node'])
  const { agent, notes } = orchestrator()
  const { whole } = await said(agent, message([asked]))
  expect(whole.split('\n')).toEqual([
    'Conclusion: 2 of 3 agents answered.',
    '',
    'Found by several of them:',
    '- `Deploying` (knowledgebase, id `k-1`), by 2 of 2',
    '',
    '- `WHALE`, `PULSE` said `This is what I found:`',
    '- `CIPHER` failed: `no live node`',
  ])
  expect(calledIn(whole)).toEqual([])
  expect(notes).toEqual([])
  const composed = orchestrator(async () => 'Ask WHALE.')
  const text = (await said(composed.agent, message([asked]))).whole
  expect(text).toContain('> Ask WHALE.')
  expect(calledIn(text)).toEqual([])
})

test('the orchestrator answers a question as the others do', async () => {
  const { agent } = orchestrator()
  expect((await said(agent, message(['where is it deployed?']))).whole).toContain('1. `Deploying`')
})
