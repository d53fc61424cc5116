/** JSON that is passed on: a number that a double cannot hold keeps its digits instead of becoming another one. */

/** More digits than any double keeps, or an exponent that may be beyond it. */
const mayChange = /\d[\d.]{15}|\d[eE][+-]?\d{3}/

type Reviver = (key: string, value: unknown) => unknown

/** ECMAScript 2026, which the types do not know yet; Node 22 has it. */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON?(digits: string): object
  isRawJSON?(value: unknown): boolean
}

/**
 * As JSON.parse, but a number that would change is an object that only JSON.stringify knows (`isRawJson`) and writes with
 * the digits that came. Throws InexactNumber for such a number where the runtime cannot keep it (Node 20).
 */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text)
  // Programs write JSON as JSON.stringify does: all that came back is as it was, found in a fifth of the time.
  if (!mayChange.test(text) || JSON.stringify(value) === text) return value
  if (rawJSON) return JSON.parse(text, keepDigits as Reviver)
  refuseChanged(text)
  return value
}

/** A number that the runtime can neither hold nor keep as a text. */
export class InexactNumber extends RangeError {
  constructor(digits: string) {
    super(`the number ${digits.slice(0, 40)} needs Node 22 or newer, or to be written as a text`)
  }
}

/** Whether it is a number that keeps its digits. */
export function isRawJson(value: unknown): value is { readonly rawJSON: string } {
  return isRawJSON?.(value) ?? false
}

function keepDigits(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value === 'number' && source !== undefined && !isExact(source, value)
    ? rawJSON!(source)
    : value
}

const stringsAndNumbers = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

function refuseChanged(text: string): void {
  for (const [token] of text.matchAll(stringsAndNumbers)) {
    if (token.startsWith('"') || isExact(token, Number(token))) continue
    throw new InexactNumber(token)
  }
}

/** Whether the number, written as JSON, is the one of the text. */
function isExact(source: string, value: number): boolean {
  return Number.isFinite(value) && canonical(source) === canonical(String(value))
}

/** The same text for the same number: its digits without zeros at both ends, and the power of ten of the first one. */
function canonical(number: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number)!
  const all = `${whole}${fraction}`
  const digits = all.replace(/^0+/, '')
  if (digits === '') return `${sign}0`
  const power = BigInt(exponent) + BigInt(whole.length - (all.length - digits.length))
  let end = digits.length
  while (digits[end - 1] === '0') end--
  return `${sign}${digits.slice(0, end)}e${power}`
}
