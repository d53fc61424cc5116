/** Faults in words: the rule, the value, and nothing of a secret. */

import { type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { expect, it, test } from 'vitest'
import { phraseOf, requestSentence, settingSentence, wordedFaults } from '#lib/schema-faults.ts'
import { compileCheck } from '#runtime/http/validation.ts'

const fields = {
  texts: Type.Array(Type.String({ maxLength: 4 }), { minItems: 1, maxItems: 1_000 }),
  wait: Type.Enum(['true', 'false'], { type: 'string' }),
  event: Type.Enum(['task.completed', 'task.failed', 'agent.spawned'], { type: 'string' }),
  port: Type.Integer({ minimum: 0, maximum: 65_535 }),
  offset: Type.Integer({ minimum: 0, maximum: 1e15 - 1 }),
  above: Type.Number({ exclusiveMinimum: 0 }),
  hex: Type.String({ pattern: '^[0-9a-f]{16,256}$', rule: '16 to 256 hexadecimal digits' }),
  to: Type.Union([Type.Literal('beginning'), Type.Literal('end'), Type.Integer({ minimum: 0 })]),
  burst: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  message: Type.Union([Type.String(), Type.Object({ parts: Type.Array(Type.String()) })]),
  mixed: Type.Array(Type.Union([Type.String(), Type.Number()])),
  once: Type.Array(Type.String(), { uniqueItems: true }),
  type: Type.Boolean(),
  api_key: Type.Integer(),
  password: Type.Enum(['a', 'b']),
}
const schema = Type.Object(
  Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, Type.Optional(field)])),
  { additionalProperties: false },
)

/** What both validators say, which the platform words alike. */
function worded(value: object): string[] {
  const typebox = wordedFaults(Value.Errors(schema as TSchema, value), schema, value)
  const ajv = compileCheck(schema)(value) ?? []
  const lines = typebox.map((fault) => `${fault.path.slice(1)}: ${requestSentence(fault)}`)
  const sameAs = ajv.map(({ path, message }) => `${path.slice(1)}: ${message}`)
  expect(sameAs.sort()).toEqual([...lines].sort())
  return lines
}

test.each<[object, string]>([
  [{ texts: [] }, 'texts: at least 1 item (0 were sent)'],
  [{ texts: Array(1_204).fill('a') }, 'texts: at most 1,000 items (1,204 were sent)'],
  [{ texts: ['abcde'] }, 'texts/0: at most 4 characters (5 were sent)'],
  [{ texts: 'a' }, 'texts: a list of 1 to 1,000 items ("a" was sent)'],
  [{ wait: '1' }, 'wait: true or false ("1" was sent)'],
  [
    { event: 'task.complete' },
    'event: one of task.completed, task.failed, agent.spawned ("task.complete" was sent); did you mean task.completed?',
  ],
  [{ port: 70_000 }, 'port: a whole number from 0 to 65,535 (70,000 was sent)'],
  [{ port: 'abc' }, 'port: a whole number from 0 to 65,535 ("abc" was sent)'],
  [{ port: 1.5 }, 'port: a whole number from 0 to 65,535 (1.5 was sent)'],
  [{ offset: -1 }, 'offset: a whole number, 0 or more (-1 was sent)'],
  [{ above: 0 }, 'above: a number above 0 (0 was sent)'],
  [{ hex: 'no' }, 'hex: 16 to 256 hexadecimal digits ("no" was sent)'],
  [{ to: 'start' }, 'to: beginning, end, or a whole number, 0 or more ("start" was sent)'],
  [{ to: -1 }, 'to: a whole number, 0 or more (-1 was sent)'],
  [{ burst: 0 }, 'burst: a whole number, 1 or more (0 was sent)'],
  [{ burst: [] }, 'burst: a whole number, 1 or more, or null (an empty list was sent)'],
  [{ message: 7 }, 'message: a text or an object (7 was sent)'],
  [{ message: { parts: [4] } }, 'message/parts/0: a text (4 was sent)'],
  [{ mixed: ['a', 1, null] }, 'mixed/2: a text or a number (null was sent)'],
  [{ once: ['a', 'a'] }, 'once: each item once'],
  [{ type: {} }, 'type: true or false (an object was sent)'],
  [{ wayt: 'true' }, 'wayt: is not a known field; did you mean wait?'],
  [{ frobnicate: 1 }, 'frobnicate: is not a known field'],
  [{ api_key: 'sk-secret' }, 'api_key: a whole number'],
  [{ password: 's3cret' }, 'password: a or b'],
])('%j', (value, sentence) => {
  expect(worded(value)).toEqual([sentence])
})

it('cuts values, and nothing in them acts on a terminal', () => {
  const [line = ''] = worded({ hex: `\u202e\u001b[2J"${'x'.repeat(10_000)}` })
  expect(line).toContain(String.raw`("\u202e\u001b[2J\"xxx`)
  expect(line).toMatch(/…" was sent\)$/)
  expect(line.length).toBeLessThan(150)
})

it('names missing fields and lists the known fields where they are few', () => {
  const few = Type.Object({ id: Type.String(), at: Type.Integer() }, { additionalProperties: false })
  expect(compileCheck(few)({ other: 1 })).toEqual([
    { path: '/id', message: 'is required' },
    { path: '/at', message: 'is required' },
    { path: '/other', message: 'is not a known field; there are id, at' },
  ])
})

it('shows no value where the faults go to others', () => {
  const check = compileCheck(schema, { showsValues: false })
  expect(check({ event: 'a secret' })).toEqual([
    { path: '/event', message: 'one of task.completed, task.failed, agent.spawned' },
  ])
})

it('takes no time over a union that thousands of items break', () => {
  const mixed = Array.from({ length: 1_900 }, () => null)
  expect(compileCheck(schema)({ mixed })).toHaveLength(20)
  const fault = {
    keyword: 'type',
    instancePath: '/mixed/0',
    schemaPath: '#/properties/mixed/items',
    params: {},
  }
  const beyond = {
    ...fault,
    get keyword(): string {
      throw new Error('a fault beyond the bound was looked at')
    },
  }
  const faults = [...Array<typeof fault>(200).fill(fault), ...Array<typeof fault>(5_000).fill(beyond)]
  expect(wordedFaults(faults, schema, { mixed })).toHaveLength(1)
})

it('words settings with their values', () => {
  expect(settingSentence({ rule: 'true or false', value: '"7"' })).toBe('is "7": true or false')
  expect(settingSentence({ rule: 'true or false' })).toBe('is not valid: true or false')
  expect(settingSentence({ fault: 'is not a URL' })).toBe('is not a URL')
})

it('lists many choices up to a bound, and gives an example of a time', () => {
  expect(phraseOf({ type: 'string', format: 'date-time' })).toBe('a time such as 2026-11-25T03:16:22Z')
  expect(phraseOf({ enum: Array.from({ length: 40 }, (_, n) => `c${n}`) })).toMatch(/c11 and 28 more$/)
})
