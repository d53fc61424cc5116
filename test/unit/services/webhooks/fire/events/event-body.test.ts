/** The body of an event: its key is added without changing anything else. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { chooseTargets, eventIdOf, namesOf } from '#services/webhooks/fire/events/deliveries.ts'
import { prepareEvent, refuseSecrets, topLevelMembers } from '#services/webhooks/fire/events/event-body.ts'
import type { WebhookTarget } from '#services/webhooks/targets/targets-file.ts'

const event = { event: 'task.completed', agent: 'WHALE', task_id: 't-1', result: { a: 1 }, ts: 1_767_225_600 }
const prepare = (value: unknown) =>
  prepareEvent(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)))

function pathsOf(value: unknown): string[] {
  try {
    prepare(value)
  } catch (error) {
    expect((error as AppError).code).toBe('validation_failed')
    return (error as AppError).errors!.map(({ path }) => path)
  }
  return []
}

test('the key is made from the parts, and is in the body', () => {
  const prepared = prepare(event)
  expect(prepared).toMatchObject({
    agent: 'WHALE',
    task_id: 't-1',
    idempotency_key: 'WHALE-t-1-task.completed',
  })
  expect(JSON.parse(prepared.body.toString())).toEqual({
    ...event,
    idempotency_key: 'WHALE-t-1-task.completed',
  })
})

test('a body that has its key is passed on byte for byte', () => {
  const text = `\n{ "ts":1767225600,"result" : {"n":12345678901234567890.10, "t":1E400, "u":"\\u00e4\\/"} ,
    "idempotency_key":"WHALE-t-1-task.failed", "event": "task.failed","agent":"WHALE", "task_id":"t-1" }  `
  expect(prepare(text).body.toString()).toBe(text)
})

test('a body without its key gets it behind its last member, and is else the same', () => {
  const text = `{"event":"task.failed","agent":"A","task_id":"1","ts":1,"result":[1.0, {"x":"}"}]  }\n`
  expect(prepare(text).body.toString()).toBe(
    `{"event":"task.failed","agent":"A","task_id":"1","ts":1,"result":[1.0, {"x":"}"}],"idempotency_key":"A-1-task.failed"  }\n`,
  )
})

test('a body without its time gets that of the relay, in seconds', () => {
  const before = Math.floor(Date.now() / 1_000)
  const { ts: _, ...without } = event
  const { ts, ...rest } = JSON.parse(prepare(without).body.toString())
  expect(ts).toBeGreaterThanOrEqual(before)
  expect(ts).toBeLessThanOrEqual(Math.floor(Date.now() / 1_000))
  expect(rest).toEqual({ ...without, idempotency_key: 'WHALE-t-1-task.completed' })
})

test('an event of the platform alone is refused from outside, with a reason that says so', () => {
  const asked = { ...event, event: 'task.input_required', task_id: 'run_1.2' }
  expect(() => prepare(asked)).toThrow(
    expect.objectContaining({
      code: 'validation_failed',
      errors: [{ path: '/event', message: expect.stringContaining('by the platform alone') }],
    }),
  )
  const prepared = prepareEvent(Buffer.from(JSON.stringify(asked)), { byPlatform: true })
  expect(prepared.idempotency_key).toBe('WHALE-run_1.2-task.input_required')
  expect(pathsOf({ ...event, event: ['task.input_required'] })).toEqual(['/event'])
})

test.each([null, true, 0, 'text', [], {}, [null], { '': { __proto__: 1 } }])(
  'a result may be %j',
  (result) => {
    expect(JSON.parse(prepare({ ...event, result }).body.toString()).result).toEqual(result)
  },
)

test.each<[string, unknown, string[]]>([
  ['no object', [event], ['']],
  ['null', null, ['']],
  ['an unknown field', { ...event, extra: 1 }, ['/extra']],
  ['an unknown event', { ...event, event: 'task.done' }, ['/event']],
  ['no event', { ...event, event: undefined }, ['/event']],
  ['no result', { ...event, result: undefined }, ['/result']],
  ['milliseconds', { ...event, ts: 1_767_225_600_000 }, ['/ts']],
  ['a fraction of a second', { ...event, ts: 1.5 }, ['/ts']],
  ['a ts before 1970', { ...event, ts: -1 }, ['/ts']],
  ['a ts that is a text', { ...event, ts: '1767225600' }, ['/ts']],
  ['an agent that is a number', { ...event, agent: 7 }, ['/agent']],
  ['an empty agent', { ...event, agent: '' }, ['/agent']],
  ['an agent with a space', { ...event, agent: 'a b' }, ['/agent']],
  ['an agent with a line break', { ...event, agent: 'a\r\nX-Evil: 1' }, ['/agent']],
  ['an agent that ends with one', { ...event, agent: 'a\n' }, ['/agent']],
  ['an agent with an umlaut', { ...event, agent: 'ä' }, ['/agent']],
  ['an agent of 129 characters', { ...event, agent: 'a'.repeat(129) }, ['/agent']],
  ['a task id with NUL', { ...event, task_id: '\0' }, ['/task_id']],
  ['the key of another event', { ...event, idempotency_key: 'WHALE-t-1-task.failed' }, ['/idempotency_key']],
  ['a key that is null', { ...event, idempotency_key: null }, ['/idempotency_key']],
  ['several faults', { ...event, agent: '', ts: '' }, ['/agent', '/ts']],
  ['a field that appears twice', `${JSON.stringify(event).slice(0, -1)},"agent":"OTHER"}`, ['/agent']],
  ['half of a surrogate pair', { ...event, result: { a: '\ud800' } }, ['/result/a']],
])('refused: %s', (_, value, paths) => {
  expect(pathsOf(value).sort()).toEqual(paths)
})

test('128 characters of an agent are taken', () => {
  expect(prepare({ ...event, agent: '~'.repeat(128) }).idempotency_key).toHaveLength(128 + 1 + 3 + 1 + 14)
})

test('parts with hyphens may make one key of two events: the relay delivers both', () => {
  const [a, b] = [
    prepare({ ...event, agent: 'a-b', task_id: 'c' }),
    prepare({ ...event, agent: 'a', task_id: 'b-c' }),
  ]
  expect(a.idempotency_key).toBe(b.idempotency_key)
  expect(a.body).not.toEqual(b.body)
})

test('a secret is reported by its field, never by itself', () => {
  const secret = 'a-very-secret-token'
  const hidden = secret.replaceAll('e', '\\u0065')
  for (const text of [
    JSON.stringify({ ...event, result: { deep: [secret] } }),
    JSON.stringify({ ...event, result: JSON.stringify({ [secret]: 1 }) }),
    // JSON.parse would drop the first of the two.
    JSON.stringify(event).replace('{"a":1}', `{"a":"${hidden}","a":2}`),
  ]) {
    try {
      refuseSecrets(prepare(text), [secret])
      throw new Error('it was taken')
    } catch (error) {
      expect(error).toMatchObject({ code: 'secret_in_payload', errors: [{ path: '/result' }] })
      expect(JSON.stringify(error) + (error as Error).message).not.toContain(secret)
    }
  }
  expect(() => refuseSecrets(prepare({ ...event, agent: secret }), [secret])).toThrow(/keys, tokens/)
  expect(() => refuseSecrets(prepare(event), [secret])).not.toThrow()
})

test('the members of any object are found at their places', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { maxKeys: 6 }),
      fc.constantFrom(undefined, 1, '\t'),
      (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        const members = topLevelMembers(text)
        expect(members.map(({ name }) => name)).toEqual(Object.keys(value))
        for (const { name, start, end } of members) {
          expect(JSON.parse(`{${text.slice(start, end)}}`)).toEqual({
            [name]: JSON.parse(JSON.stringify(value[name])),
          })
        }
      },
    ),
  )
})

const target = (name: string, lists: Partial<WebhookTarget> = {}): [string, WebhookTarget] => [
  name,
  { name, events: null, agents: null, ...lists } as WebhookTarget,
]
const targets = new Map([
  target('all'),
  target('failures', { events: ['task.failed'] }),
  target('whales', { agents: ['WHALE'] }),
  target('pulses', { agents: ['PULSE'] }),
])
const chosen = (query?: string | string[]) =>
  chooseTargets({ targets }, event, namesOf(query)).map(({ name }) => name)

test('every target whose lists match has the event; names restrict it to those', () => {
  expect(chosen()).toEqual(['all', 'whales'])
  expect(chosen('whales')).toEqual(['whales'])
  expect(chosen('whales,all')).toEqual(['all', 'whales'])
  expect(chosen(['whales', 'all,whales', ' all '])).toEqual(['all', 'whales'])
  expect(chosen('failures,pulses')).toEqual([])
})

test.each([['nope'], ['all,nope'], [['all', 'NOPE', 'constructor']]])(
  'unknown names refuse all: %j',
  (query) => {
    expect(() => chosen(query)).toThrow(
      /Nothing was sent\. There is no target named (nope|NOPE, constructor)/,
    )
  },
)

test.each([[''], [','], ['all,'], [['all', '']]])('an empty name is a fault: %j', (query) => {
  expect(() => chosen(query)).toThrow(/empty name/)
})

test('unknown names are shown in short, and printable', () => {
  try {
    chosen(`${'x'.repeat(200)},\u001b[31m,${Array.from({ length: 50 }, (_, n) => `n${n}`).join(',')}`)
    throw new Error('it was taken')
  } catch (error) {
    expect((error as Error).message.length).toBeLessThan(500)
    expect((error as Error).message).not.toContain('\u001b')
  }
})

test('the event id of a delivery follows from the fleet event and the target alone', () => {
  expect(eventIdOf('e1', 'a')).toBe(eventIdOf('e1', 'a'))
  expect(
    new Set([eventIdOf('e1', 'a'), eventIdOf('e1', 'b'), eventIdOf('e2', 'a'), eventIdOf('e1a', '')]).size,
  ).toBe(4)
})
