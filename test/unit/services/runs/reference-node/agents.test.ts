/** What the reference agents say: answers by their roles, notes on request, and no name that would call anybody. */

import { expect, test } from 'vitest'
import { withoutAuditNotes } from '#client/audit-notes.ts'
import { findMentions } from '#services/runs/dispatch/find-mentions.ts'
import { createConversations, createReferenceAgent } from '#services/runs/reference-node/agents.ts'
import type { Facts } from '#services/runs/reference-node/facts.ts'
import type { Memory } from '#services/runs/reference-node/memory.ts'
import type { Compose } from '#services/runs/reference-node/model.ts'
import { type Message, type NodeAgent, referenceAgents } from '#services/runs/reference-node/roster.ts'
import { facts, lastSeen, memoryOf, points } from './world.ts'

const codenames = referenceAgents.map(({ codename }) => codename)

interface Given {
  memory: Memory
  facts?: Facts
  compose?: Compose
  conversations?: ReturnType<typeof createConversations>
}

function agentOf(codename: string, given: Given) {
  const missing: string[] = []
  const other = { slug: codename.toLowerCase(), codename, role: 'Looking around' }
  const agent = createReferenceAgent({
    agent: referenceAgents.find((one) => one.codename === codename) ?? other,
    memory: async () => given.memory,
    facts: given.facts ?? facts,
    compose: given.compose,
    conversations: given.conversations ?? createConversations(),
    onMissing: (what) => missing.push(what),
  })
  return { agent, missing }
}

const message = (text: string, more: Partial<Message> = {}): Message => ({
  texts: [text],
  userId: 'u',
  sessionId: 's',
  customMetadata: {},
  ...more,
})
const naming = (text: string) =>
  message(
    `You are ATLAS. user named you in a conversation.\n\nuser: before\n\nThe message that names you:\n\nuser: ${text}`,
  )

/** An answer calls nobody. */
async function said(one: NodeAgent, given: Message): Promise<string> {
  let whole = ''
  for await (const { text } of one.answer(given, new AbortController().signal)) whole += text
  expect(findMentions(whole, codenames)).toEqual([])
  return whole
}

const noModel = 'No model is set'

test('WHALE answers from all collections, with passages and links, without weak hits', async () => {
  const { memory, notes, searched } = memoryOf(points)
  const whole = await said(agentOf('WHALE', { memory }).agent, message('where is it deployed?'))
  const quoted = "`Ask WHALE, @pulse 'NEXUS' and ''' @cipher [x](http://evil.test)`"
  expect(whole.split('\n').slice(0, 9)).toEqual([
    '**4 records speak of it**, in knowledgebase (2), fleet_notes (1) and posts (1).',
    '',
    '1. [`Deploying`](/console/search?in=knowledgebase&like=k%281%29) (score 0.80, knowledgebase, `docs/deploy.md`)',
    '   `By night.`',
    '2. [`It was deployed`](/console/notes/7) (score 0.60, fleet_notes)',
    '   `The body of 7.`',
    `3. [${quoted}](/console/search?in=knowledgebase&like=WHALE%60) (score 0.40, knowledgebase)`,
    '4. [`A post`](/console/search?in=posts&like=p-1) (score 0.30, posts)',
    `   ${quoted}`,
  ])
  expect(searched).toEqual([
    ['fleet_notes', withoutAuditNotes('fleet_notes')],
    ['knowledgebase', undefined],
    ['posts', undefined],
    ['almemsha', undefined],
  ])
  expect(notes).toEqual([])
})

test('ATLAS answers from documents, then from notes; nothing is said as such', async () => {
  const { memory } = memoryOf(points)
  const whole = await said(agentOf('ATLAS', { memory }).agent, naming('where is it deployed?'))
  expect(whole).toMatch(/^\*\*3 of 4 documents speak of it\.\*\*\n\n1\. \[`Deploying`\]/)
  expect(whole).toContain('In notes:\n\n1. [`It was deployed`](/console/notes/7) (score 0.60, fleet_notes)\n')
  const nothing = await said(agentOf('ATLAS', memoryOf({})).agent, message('zebra?'))
  expect(nothing).toMatch(
    /^\*\*None of 4 documents speaks of it\.\*\* Weaker matches are in [^\n]+\n\nNo model is set/,
  )
})

const target = (name: string, state: string, last_status: number | null = null) => {
  return { target: name, state, lag: 2, last_status }
}
const group = (name: string, lag: number, members = 1, stuck: unknown[] = []) => {
  return { group: name, topic: 'audit.events', members, lag, stuck }
}

test('PULSE says faults first, then lag, then the best records', async () => {
  const { memory } = memoryOf(points)
  const ill: Facts = {
    ...facts,
    lag: async () => [group('audit-writer', 62, 0), group('vector-writer', 5, 1, [{}]), group('x', 1)],
    deadLetters: async () => ({ count: 2, atMost: false }),
    targets: async () => [target('WHALE', 'outage'), target('ops', 'idle')],
    nodes: async () => [{ slug: 'nexus', status: 'down', lastSeen }],
  }
  const whole = await said(agentOf('PULSE', { memory, facts: ill }).agent, message('how are you?'))
  expect(whole.split('\n').slice(0, 12)).toEqual([
    '**6 things not well:** The database does not answer.',
    '',
    'Also not well:',
    '',
    '- [`audit-writer`](/console/groups/audit-writer) is not running, and 62 records behind.',
    '- [`vector-writer`](/console/groups/vector-writer) cannot get through 1 record.',
    '- The node of `nexus` does not answer, since 2026-11-27T07:00:00.000Z.',
    '- [`WHALE`](/console/webhooks/WHALE): down, 2 waiting',
    '- [2 dead letters](/console/dead-letters), to be replayed or discarded.',
    '',
    'These answer: vector engine (0.5 ms) and event log (0.5 ms).',
    '',
  ])
  expect(whole).toContain('3 of 3 reader groups have records to read:')
  expect(whole).toContain('About the question itself:\n\n1. [`Deploying`]')
})

test('PULSE takes no group that sleeps for a fault', async () => {
  const whole = await said(agentOf('PULSE', memoryOf({})).agent, message('how are you?'))
  expect(whole).not.toContain('relational-writer')
  expect(whole).toContain('1 of 3 reader groups has records to read:\n\n- [`audit-writer`]')
  expect(whole).not.toContain('About the question')
})

test('a fact that cannot be had is said, and the answer still comes; without any the run fails', async () => {
  const away = async () => {
    throw new Error('no platform runs on the data directory')
  }
  const none: Facts = { ...facts, lag: away, deadLetters: away, targets: away, nodes: away }
  const well = agentOf('PULSE', { memory: memoryOf(points).memory, facts: none })
  const whole = await said(well.agent, message('how are you?'))
  const reason = '`no platform runs on the data directory`'
  expect(whole).toContain(`\n\nThe lag of the reader groups could not be read: ${reason}\n\n`)
  const { memory } = memoryOf(points, { search: new Error('unknown_agent'), health: new Error('away') })
  const nothing = said(agentOf('PULSE', { memory, facts: none }).agent, message('how are you?'))
  await expect(nothing).rejects.toThrow('away')
  await expect(said(agentOf('ATLAS', { memory }).agent, message('what?'))).rejects.toThrow('unknown_agent')
})

test('CIPHER says who failed to prove who they are, who may do what, and what its user may', async () => {
  const { memory } = memoryOf({})
  const ask = (userId: string) =>
    said(agentOf('CIPHER', { memory }).agent, message('is all safe?', { userId }))
  const whole = await ask('SCOUT')
  expect(whole.split('\n\n').slice(0, -1)).toEqual([
    '**In the last day 1 failed handshake of agents, and 3 calls refused of callers who are no agents.**',
    '[Failed handshakes](/console/search?in=fleet_notes&text=verify&where=outcome%3Dinvalid_signature), the newest first:',
    '- `verify by @pulse: invalid_signature`',
    'Who may do what:',
    '- admin (reads, writes and manages), tier agent: [`scout`](/console/agents/scout)\n' +
      '- member (reads and writes), tier agent: [`PULSE`](/console/agents/PULSE) and [`atlas`](/console/agents/atlas)',
    'You are `SCOUT`: admin, who reads, writes and manages.',
  ])
  expect(await ask('person_ana')).toContain('You are `person_ana`: viewer, who reads.')
  expect(await ask('operator')).toContain('may do everything')
  expect(await ask('guest')).toContain('a name without rights')
})

test('NEXUS says which targets and nodes cannot be reached', async () => {
  const { memory } = memoryOf({})
  expect(await said(agentOf('NEXUS', { memory }).agent, message('well?'))).toContain(
    '**All is reachable:** 1 webhook target and 1 node.\n\nWebhook targets:\n\n' +
      '- [`ops`](/console/webhooks/ops): delivering, 2 waiting, [1 dead letter](/console/dead-letters), last answer 200\n\n' +
      'Nodes that answer: `whale`.',
  )
  const ill: Facts = {
    ...facts,
    targets: async () => [target('ops', 'idle'), target('@pulse', 'outage', 503)],
    nodes: async () => [{ slug: 'WHALE', status: 'down', lastSeen: null }],
  }
  const whole = await said(agentOf('NEXUS', { memory, facts: ill }).agent, message('well?'))
  expect(whole).toMatch(/^\*\*1 of 2 webhook targets down and 1 of 1 node away\.\*\*/)
  expect(whole).toMatch(/- \[`@pulse`\]\(\/console\/webhooks\/%40pulse\): down, .*503\n- \[`ops`\]/)
  expect(whole).toContain('- The node of `WHALE` does not answer, and never did.')
})

test('AXON says what it knows and whom one may ask; an agent of another name what it knows', async () => {
  const { memory } = memoryOf(points)
  const axon = await said(agentOf('AXON', { memory }).agent, message('where is it deployed?'))
  expect(axon).toMatch(/^\*\*3 records speak of it\*\*/)
  expect(axon).toContain('`WHALE` can be asked')
  const scout = await said(agentOf('SCOUT', memoryOf({})).agent, message('zebra?'))
  expect(scout).toMatch(/^\*\*Nothing in `knowledgebase` and `fleet_notes` speaks of it\.\*\*/)
})

test('that there is no model is said once in a conversation, by whichever agent comes first', async () => {
  const given = { memory: memoryOf(points).memory, conversations: createConversations() }
  const ask = (codename: string, more = {}) => said(agentOf(codename, given).agent, message('why?', more))
  expect(await ask('WHALE')).toContain(noModel)
  expect(await ask('WHALE')).not.toContain(noModel)
  expect(await ask('PULSE')).not.toContain(noModel)
  expect(await ask('PULSE', { sessionId: 't' })).toContain(noModel)
})

test('the words of a model and the records behind them are kept apart', async () => {
  const asked: string[] = []
  const { memory } = memoryOf(points)
  const compose: Compose = async (messages) => {
    asked.push(...messages.map(({ content }) => content))
    return 'By night, says WHALE.\u2028@pulse knows more.'
  }
  const whole = await said(agentOf('WHALE', { memory, compose }).agent, message('when?'))
  expect(whole).toMatch(
    /^### What the model says\n\n> By night, says WHALE\.\n> @pulse knows more\.\n\n### What was found\n\n\*\*4 records/,
  )
  expect(whole).not.toContain(noModel)
  expect(asked[1]).toContain('- Deploying: # Deploying\nBy night.')
  expect(asked[1]).toContain('Question:\nwhen?')
})

test('an answer that came from no model says so, and nothing of what the endpoint said', async () => {
  const failing = agentOf('WHALE', {
    memory: memoryOf(points).memory,
    compose: async () => {
      throw new Error('secret words of the endpoint')
    },
  })
  const whole = await said(failing.agent, message('when?'))
  expect(whole).toMatch(/^\*\*4 records/)
  expect(whole).toMatch(/\n\n\(no model answered: it failed\)$/)
  expect(failing.missing).toEqual(['model'])
})

test.each([
  [
    message('note this: the crane is broken, says WHALE\nsince noon'),
    'the crane is broken, says WHALE',
    'since noon',
  ],
  [message('The crane is broken. Write a note!'), 'The crane is broken.', ''],
  [message('Please, remember that the crane is broken'), 'the crane is broken', ''],
  [message('@atlas /note the crane is broken'), 'the crane is broken', ''],
  [naming('The crane is broken. ATLAS, note that.'), 'The crane is broken.', ''],
])('a note is written where the message asks for one: %o', async (given, subject, more) => {
  const { memory, notes, keys } = memoryOf(points)
  const { agent } = agentOf('ATLAS', { memory })
  expect(await said(agent, given)).toBe(`Noted as [note 12](/console/notes/12): \`${subject}\``)
  await said(agent, given)
  expect(notes[0]).toEqual({ subject, body: more === '' ? subject : `${subject}\n${more}` })
  // The hub makes one note of them.
  expect(keys[0]).toBe(keys[1])
})

test.each([
  ['a question', message('Do you remember that the crane broke? Was it noted? Is there a note?')],
  ['a request to another agent', message('WHALE, note this: the crane is broken')],
  ['a request to the one who was addressed', naming('Note this: @atlas may know of the crane.')],
])('%s is not noted', async (_what, given) => {
  const { memory, notes } = memoryOf(points)
  expect(await said(agentOf('ATLAS', { memory }).agent, given)).toContain('documents speak of it')
  expect(notes).toEqual([])
})

test('a message of many lines takes no more time than its length', async () => {
  const { memory, notes } = memoryOf({})
  const lines = '\n'.repeat(200_000)
  expect(await said(agentOf('ATLAS', { memory }).agent, message(`${lines}why?`))).toContain('None of')
  expect(notes).toEqual([])
})

test('one agent of a dispatch writes the note; without a text, or a hub, that is said', async () => {
  const { memory, notes } = memoryOf(points)
  const given = { memory, conversations: createConversations() }
  const asked = message('Note this: the crane is broken')
  for (const codename of ['WHALE', 'PULSE', 'ATLAS']) await said(agentOf(codename, given).agent, asked)
  expect(notes).toHaveLength(1)
  expect(await said(agentOf('ATLAS', given).agent, message('Note this.'))).toContain('Say what to note')
  const away = agentOf('ATLAS', memoryOf(points, { notes: new Error('the hub is away') }))
  expect(await said(away.agent, asked)).toBe('It could not be noted: `Error: the hub is away`')
  expect(away.missing).toEqual(['note'])
})

test('a report is taken in one short sentence, without a search', async () => {
  const { memory, searched } = memoryOf(points)
  const report = { sessionId: 'reports-s', customMetadata: { report: { reportId: 'run_1' } } }
  const given = message('Report run_1: a run of WHALE ended, completed.', report)
  expect(await said(agentOf('AXON', { memory }).agent, given)).toBe('Taken: the report of `run_1`.')
  expect(searched).toEqual([])
})
