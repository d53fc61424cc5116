/** What operators do with the dead letters of every topic: list, show, replay, discard. */

import { AppError } from '#lib/errors.ts'
import { type Action, defineAction } from '../action.ts'
import { exitOf, listLetters, showLetters, shownList, shownResults } from './letters.ts'
import {
  filter,
  letters,
  listed,
  listedMax,
  namesMax,
  type RecordFilter,
  records,
  shownLetters,
  shownMax,
  targetOf,
  treated,
  treatLetters,
  treatment,
} from './records.ts'

const reading = ['not_found', 'log_unavailable', 'registry_unavailable'] as const
const treating = [...reading, 'dead_letter_not_found', 'conflict', 'relational_engine_unavailable'] as const
const which = {
  topic: ['topic', 'only those of this topic'],
  key: ['key', "a record's key, or the name of one dead letter"],
} as const
const treatedBy = {
  'filter.topic': which.topic,
  'filter.key': which.key,
  dry_run: 'change nothing, and say which ones are meant',
} as const
const sayWhich = () => new AppError('bad_request', 'Say which ones: --topic, --key, or both.')

const list = defineAction({
  name: 'dead-letters list',
  summary: 'What the workers gave up on, the oldest first',
  args: filter,
  run: (context, wanted) => listLetters(records, context, wanted),
  http: {
    role: 'viewer',
    problems: reading,
    method: 'GET',
    path: '/dead-letters',
    operationId: 'listDeadLetters',
    tag: 'dead letters',
    answer: letters,
    view: ({ dead_letters: found }) => ({
      dead_letters: found.slice(-listedMax).map(listed),
      count: found.length,
    }),
  },
  cli: [
    {
      options: which,
      example: 'flotilla dead-letters list --topic vectors.commands',
      render: ({ dead_letters: found }) =>
        shownList(found, {
          topic: ({ topic }) => topic,
          name: ({ key }) => key,
          'record key': ({ recordKey }) => recordKey,
          attempts: ({ attempts }) => attempts,
          parked: ({ parkedAt }) => parkedAt,
          why: ({ reason }) => reason.slice(0, 80),
        }),
    },
  ],
})

const show = defineAction({
  name: 'dead-letters show',
  summary: 'Dead letters with their values, decoded',
  args: filter,
  run: (context, wanted) => showLetters(records, context, wanted),
  cli: [
    {
      options: which,
      read(wanted) {
        if (wanted.topic === undefined && wanted.key === undefined) throw sayWhich()
        return wanted
      },
      example: 'flotilla dead-letters show --key vector-writer/3/120',
      render: ({ dead_letters: shown }) => ({ documents: shown }),
    },
  ],
})

/** Over HTTP: no more than an answer holds, and none is no fault. */
const showSome = defineAction({
  name: 'dead-letters show some',
  summary: show.summary,
  args: filter,
  async run(context, wanted) {
    const { dead_letters: meant } = await listLetters(records, context, wanted)
    const some: RecordFilter = { names: meant.slice(0, shownMax).map(records.nameOf) }
    if (meant.length === 0) return { dead_letters: [] }
    const { dead_letters: shown } = await showLetters(records, context, some)
    return {
      dead_letters: shown.map(({ value, fault, ...letter }) => ({
        ...listed(letter),
        value,
        ...(fault === undefined ? {} : { fault }),
      })),
    }
  },
  http: {
    role: 'admin',
    problems: reading,
    method: 'GET',
    path: '/dead-letters/show',
    operationId: 'showDeadLetters',
    tag: 'dead letters',
    description: `The first ${shownMax} that are meant.`,
    answer: shownLetters,
  },
})

const treat = (verb: 'replay' | 'discard', summary: string, example: string) =>
  defineAction({
    name: `dead-letters ${verb}`,
    summary,
    args: treatment,
    change: {
      action: `dead-letters.${verb}`,
      target: targetOf,
      isTrial: ({ dry_run }) => dry_run === true,
    },
    run: (context, asked) => treatLetters(context, verb, asked),
    http: {
      role: 'admin',
      problems: treating,
      method: 'POST',
      path: `/dead-letters/${verb}`,
      operationId: `${verb}DeadLetters`,
      tag: 'dead letters',
      body: {
        title: 'DeadLetterTreatment',
        examples: [{ filter: { topic: 'audit.events' }, dry_run: true }],
      },
      answer: treated,
      view: (all) => ({ ...all, results: all.results.slice(0, namesMax) }),
    },
    cli: [
      {
        options: treatedBy,
        read(asked) {
          if (!asked.filter) throw sayWhich()
          return asked
        },
        example,
        render: ({ results }) =>
          shownResults(results, { topic: ({ topic }) => topic, name: ({ key }) => key }),
        exit: (all) => exitOf(all),
      },
    ],
  })

export const recordLetters = {
  list,
  show,
  replay: treat(
    'replay',
    'Put records into their topics again, behind what came later',
    'flotilla dead-letters replay --topic audit.events',
  ),
  discard: treat(
    'discard',
    'Remove them for good',
    'flotilla dead-letters discard --key vector-writer/3/120',
  ),
}

export const deadLetterActions: readonly Action[] = [...Object.values(recordLetters), showSome]
