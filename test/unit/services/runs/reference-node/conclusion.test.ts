/** Conclusions of dispatches: on what the agents agree, on what they differ, and who did not answer. */

import { expect, test } from 'vitest'
import { findMentions } from '#services/runs/dispatch/find-mentions.ts'
import { answersIn, conclusionOf } from '#services/runs/reference-node/conclusion.ts'
import { recordsOf } from '#services/runs/reference-node/markdown.ts'
import { referenceAgents } from '#services/runs/reference-node/roster.ts'

const record = (id: string, title: string, text?: string) => ({
  ...{ collection: 'knowledgebase' as const, id, score: 0.5, title, path: 'docs/a.md', text },
})
const both = record('k-1', 'Deploying', 'By night, says WHALE.')
const own = record('k-2', 'Ask @pulse `now`')

const question = (...answers: string[]) =>
  [
    'This message was sent to all agents of the fleet:',
    'Where is it?',
    'What they answered:',
    ...answers,
    'Give the conclusion.',
  ].join('\n\n')

test('it says what several found, what only one found, what each said, and who did not answer', () => {
  const reports = answersIn(
    question(
      `WHALE (completed): **2 records speak of it**\n\n${recordsOf([both, own], 300)}`,
      `PULSE (completed): **1 thing not well:** [\`@nexus\`](/console/webhooks/nexus): down\n\n${recordsOf([both], 0)}`,
      'ATLAS (completed): ### What the model says\n\n> By **night**, says @nexus.',
      'NEXUS (completed): By night, says @nexus.',
      'CIPHER (failed): no live node of WHALE',
    ),
  )
  const whole = conclusionOf(reports).join('\n\n')
  expect(whole.split('\n')).toEqual([
    '**4 of 5 agents answered.**',
    '',
    '[`Deploying`](/console/search?in=knowledgebase&like=k-1): `By night, says WHALE.`',
    '',
    'They agree on:',
    '',
    '- [`Deploying`](/console/search?in=knowledgebase&like=k-1): `WHALE`, `PULSE`',
    '',
    'Only one found:',
    '',
    "- [`Ask @pulse 'now'`](/console/search?in=knowledgebase&like=k-2): `WHALE`",
    '',
    'What each said:',
    '',
    '- `WHALE`: `2 records speak of it`',
    "- `PULSE`: `1 thing not well: '@nexus': down`",
    '- `ATLAS`, `NEXUS`: `By night, says @nexus.`',
    '- `CIPHER`: failed, `no live node of WHALE`',
  ])
  const codenames = referenceAgents.map(({ codename }) => codename)
  expect(findMentions(whole, codenames)).toEqual([])
})

test('without records it is who said what', () => {
  const reports = answersIn(question('WHALE (completed): Nothing.', 'PULSE (completed): Nothing.'))
  expect(conclusionOf(reports)).toEqual([
    '**All 2 agents answered.**',
    'What each said:\n\n- `WHALE`, `PULSE`: `Nothing.`',
  ])
})

test('any other message is none to conclude', () => {
  expect(answersIn('What they answered:\n\nWHALE (completed): x\n\nGive the conclusion.')).toEqual([])
  expect(answersIn('hello')).toEqual([])
})
