/** The filter of a request, checked condition by condition, and its shape for the API description. */

import { Type } from 'typebox'
import { isScalar } from '#engines/vectors/filter.ts'
import type {
  Filter,
  FilterCondition,
  FilterMatch,
  FilterRange,
  FilterValue,
  Payload,
  PayloadValue,
} from '#engines/vectors/port.ts'
import { microsOf, wordsOf } from '#engines/vectors/values.ts'
import type { FieldError } from '#lib/errors.ts'
import { pointerPart } from '#lib/path-part.ts'
import { grouped } from '#lib/plural.ts'
import { requestSentence, ruleAndValue, unknownField } from '#lib/schema-faults.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import { fieldErrorsMax, validationFailed } from '#runtime/http/validation.ts'

const depthMax = 5
const conditionsMax = 100
const listedValuesMax = 1_000
const wordsMax = 64

const lists = ['must', 'should', 'must_not'] as const
const matchKinds = ['value', 'any', 'except', 'text'] as const
const bounds = ['gt', 'gte', 'lt', 'lte'] as const

/** The faults of a filter, and how many conditions it has so far. */
interface Reading {
  faults: FieldError[]
  conditions: number
}

type Fields = Record<string, unknown>

/**
 * The filter at `place`; null counts as left out, there and in its fields. Throws AppError `validation_failed` that names each faulty
 * part by its path.
 */
export function readFilter(value: unknown, place = '/filter'): Filter | undefined {
  if (value == null) return undefined
  const reading: Reading = { faults: [], conditions: 0 }
  const filter = filterAt(reading, place, value, 1)
  if (reading.conditions > conditionsMax) {
    const message = ruleAndValue(`at most ${conditionsMax} conditions`, reading.conditions)
    reading.faults.unshift({ path: place, message })
  }
  if (reading.faults.length > 0) throw validationFailed(reading.faults.slice(0, fieldErrorsMax))
  return filter
}

function filterAt(reading: Reading, path: string, value: unknown, depth: number): Filter {
  const fields = fieldsAt(reading, path, value, lists)
  if (depth > depthMax) {
    reading.faults.push({ path, message: `filters within filters at most ${depthMax} deep` })
    return {}
  }
  const filter: Filter = {}
  for (const list of lists) {
    const conditions = fields[list]
    if (conditions == null) continue
    if (!Array.isArray(conditions)) {
      reading.faults.push({
        path: `${path}/${list}`,
        message: ruleAndValue('a list of conditions', conditions),
      })
      continue
    }
    reading.conditions += conditions.length
    if (reading.conditions > conditionsMax) continue
    filter[list] = conditions.flatMap(
      (condition, n) => conditionAt(reading, `${path}/${list}/${n}`, condition, depth) ?? [],
    )
  }
  return filter
}

function conditionAt(
  reading: Reading,
  path: string,
  value: unknown,
  depth: number,
): FilterCondition | undefined {
  const { faults } = reading
  if (!isObject(value)) {
    faults.push({ path, message: ruleAndValue('a condition: an object', value) })
    return undefined
  }
  if (value.is_empty != null) {
    fieldsAt(reading, path, value, ['is_empty'])
    const { key } = fieldsAt(reading, `${path}/is_empty`, value.is_empty, ['key'])
    return { is_empty: { key: keyAt(reading, `${path}/is_empty/key`, key) } }
  }
  if (lists.some((list) => list in value)) return filterAt(reading, path, value, depth + 1)
  const fields = fieldsAt(reading, path, value, ['key', 'match', 'range'])
  const { match, range } = fields
  if ((match == null) === (range == null)) {
    faults.push({ path, message: 'a key with either match or range, is_empty, or a filter' })
    return undefined
  }
  const key = keyAt(reading, `${path}/key`, fields.key)
  return match == null
    ? { key, range: rangeAt(reading, `${path}/range`, range) }
    : { key, match: matchAt(reading, `${path}/match`, match) }
}

function keyAt({ faults }: Reading, path: string, key: unknown): string {
  if (typeof key === 'string' && key.isWellFormed()) return key
  const message = typeof key === 'string' ? halfPair : ruleAndValue('a text: the key of a payload', key)
  faults.push({ path, message })
  return ''
}

/** As JSON can write it: 1e999. */
const isBeyond = (value: unknown) => typeof value === 'number' && !Number.isFinite(value)

const halfPair = 'has half of a surrogate pair'

function matchAt(reading: Reading, path: string, value: unknown): FilterMatch {
  const fields = fieldsAt(reading, path, value, matchKinds)
  const named = matchKinds.filter((kind) => kind in fields)
  const given = named.length === 1 ? named : named.filter((kind) => fields[kind] != null)
  const [kind] = given
  if (kind === undefined || given.length > 1) {
    reading.faults.push({ path, message: `exactly one of ${matchKinds.join(', ')}` })
    return { value: '' }
  }
  const place = `${path}/${kind}`
  if (kind === 'text') return { text: textAt(reading, place, fields.text) }
  if (kind === 'value') return { value: valueAt(reading, place, fields.value) }
  const values = fields[kind]
  if (!Array.isArray(values) || values.length === 0 || values.length > listedValuesMax) {
    const shown = Array.isArray(values) ? values.length : values
    const message = ruleAndValue(`a list of 1 to ${grouped(listedValuesMax)} values`, shown)
    reading.faults.push({ path: place, message })
    return { any: [] }
  }
  const read = values.map((one, n) => valueAt(reading, `${place}/${n}`, one))
  return kind === 'any' ? { any: read } : { except: read }
}

function valueAt({ faults }: Reading, path: string, value: unknown): FilterValue {
  const isWhole = typeof value === 'string' ? value.isWellFormed() : !isBeyond(value)
  if (isScalar(value as PayloadValue) && isWhole) return value as FilterValue
  const rule = isBeyond(value) ? 'a number that fits a double' : 'a text, a number or true or false'
  const message = typeof value === 'string' ? halfPair : ruleAndValue(rule, value)
  faults.push({ path, message })
  return ''
}

function textAt({ faults }: Reading, path: string, text: unknown): string {
  if (typeof text !== 'string') {
    faults.push({ path, message: ruleAndValue('a text', text) })
    return ''
  }
  const words = wordsOf(text).whole.length
  if (words === 0 || words > wordsMax) {
    faults.push({ path, message: ruleAndValue(`a text of 1 to ${wordsMax} words`, words) })
  }
  return text
}

function rangeAt(reading: Reading, path: string, value: unknown): FilterRange {
  const fields = fieldsAt(reading, path, value, bounds)
  const range: FilterRange = {}
  for (const name of bounds) {
    const bound = fields[name]
    if (bound == null) continue
    if (Number.isFinite(bound) || (typeof bound === 'string' && microsOf(bound) !== undefined)) {
      range[name] = bound as number | string
      continue
    }
    const message = ruleAndValue('a number, or a time such as 2026-01-31T12:00:00Z', bound)
    reading.faults.push({ path: `${path}/${name}`, message })
    return range
  }
  const types = new Set(Object.values(range).map((bound) => typeof bound))
  if (types.size === 0) reading.faults.push({ path, message: `at least one of ${bounds.join(', ')}` })
  if (types.size > 1) reading.faults.push({ path, message: 'all bounds numbers, or all times' })
  return range
}

/** The fields of an object that has no others. */
function fieldsAt({ faults }: Reading, path: string, value: unknown, known: readonly string[]): Fields {
  if (!isObject(value)) {
    faults.push({ path, message: ruleAndValue('an object', value) })
    return {}
  }
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue
    faults.push({ path: `${path}${pointerPart(name)}`, message: requestSentence(unknownField(name, known)) })
  }
  return value
}

function isObject(value: unknown): value is Payload {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const closed = { additionalProperties: false }
const value = Type.Unsafe<FilterValue>({ type: ['string', 'number', 'boolean'] })
const values = Type.Array(value, { minItems: 1, maxItems: listedValuesMax })
const bound = Type.Optional(Type.Unsafe<number | string>({ type: ['number', 'string'] }))
const key = Type.String({
  description: 'A payload key; a dotted one is a path through objects, not through arrays.',
})

const match = Type.Object(
  {
    value: Type.Optional({ ...value, description: 'Equal by value and type; an array contains it.' }),
    any: Type.Optional({ ...values, description: 'One of these.' }),
    except: Type.Optional({ ...values, description: 'The key has a value that is none of these.' }),
    text: Type.Optional(
      Type.String({
        description: 'Every word of it is a word of the value, whatever the case and marks.',
      }),
    ),
  },
  { ...closed, title: 'Match', description: 'Exactly one of these.', minProperties: 1, maxProperties: 1 },
)

const range = Type.Object(
  { gt: bound, gte: bound, lt: bound, lte: bound },
  {
    ...closed,
    title: 'Range',
    description:
      'All numbers, or all ISO 8601 times, without an offset of UTC; a text that is no time is in no range.',
    minProperties: 1,
  },
)

const condition = Type.Object(
  {
    key: Type.Optional(key),
    match: Type.Optional(match),
    range: Type.Optional(range),
    is_empty: Type.Optional(
      Type.Object({ key }, { ...closed, title: 'IsEmpty', description: 'The key is missing, null or [].' }),
    ),
    ...Object.fromEntries(
      lists.map((list) => [
        list,
        Type.Optional(
          Type.Array(Type.Object({}, { additionalProperties: true, description: 'A condition.' })),
        ),
      ]),
    ),
  },
  {
    ...closed,
    title: 'Condition',
    description:
      'A `key` with `match` or `range`, or `is_empty`, or a filter again (`must`, `should`, `must_not`), at most ' +
      `${depthMax} deep. Of an array any element counts.`,
  },
)
const conditions = (description: string) =>
  Type.Optional(Type.Array(condition, { maxItems: conditionsMax, description }))

/** Checked by `readFilter`. */
export const filterShape = Type.Unsafe<unknown>(
  shownAs(
    Type.Object(
      {
        must: conditions('All of these hold.'),
        should: conditions('At least one of these holds, where there are any.'),
        must_not: conditions('None of these holds. A missing key meets no condition but `is_empty`.'),
      },
      {
        ...closed,
        title: 'Filter',
        description: `At most ${conditionsMax} conditions in all.`,
        examples: [
          {
            must: [
              { key: 'status', match: { any: ['active', 'open'] } },
              { key: 'updated_at', range: { gte: '2026-01-01T00:00:00Z' } },
            ],
          },
        ],
      },
    ),
  ),
)
