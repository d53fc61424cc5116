/** Counts the characters that a function looks at: its cost, on a machine of any speed. */

type Method = (this: unknown, ...given: unknown[]) => unknown

/** Characters that one call looked at; every other method of a text may look at all of it. */
const costs: Record<string, (text: string, given: unknown[], result: unknown) => number> = {
  at: () => 1,
  charAt: () => 1,
  charCodeAt: () => 1,
  codePointAt: () => 1,
  startsWith: (_, [wanted]) => String(wanted).length,
  endsWith: (_, [wanted]) => String(wanted).length,
  slice: (_text, _given, result) => String(result).length,
  substring: (_text, _given, result) => String(result).length,
  indexOf: (text, [, from = 0], result) =>
    (Number(result) < 0 ? text.length : Number(result)) - Number(from) + 1,
}

/**
 * The characters at which `work`, which is synchronous, looks with the methods of texts and of regular expressions.
 * Throws after `most` of them: work that takes the square of its text would not end.
 */
export function stepsOnText(work: () => unknown, most = Number.POSITIVE_INFINITY): number {
  let steps = 0
  /** `lastIndex` of a regular expression before the call. */
  let from = 0
  const restore = [
    ...Object.keys(costs).map((name) =>
      replaced(String.prototype, name, (text, given, result) => costs[name]!(String(text), given, result)),
    ),
    ...wholeTextMethods.map((name) => replaced(String.prototype, name, (text) => String(text).length)),
    ...['exec', 'test'].map((name) => replaced(RegExp.prototype, name, stepsOfPattern)),
  ]
  try {
    work()
    return steps
  } finally {
    for (const one of restore) one()
  }

  /** A pattern with a place of its own looks from there to the end of what it finds; if it is sticky, no further than it fits. */
  function stepsOfPattern(pattern: unknown, [text]: unknown[], result: unknown): number {
    const { sticky, global, lastIndex } = pattern as RegExp
    const isFound = result !== null && result !== false
    if (isFound && (sticky || global)) return lastIndex - from + 1
    return sticky ? 1 : String(text).length - from
  }

  function replaced(
    prototype: object,
    name: string | symbol,
    cost: (self: unknown, given: unknown[], result: unknown) => number,
  ): () => void {
    const own = Object.getOwnPropertyDescriptor(prototype, name)!
    const method = own.value as Method
    const counting: Method = function (...given) {
      from = (this as RegExp).lastIndex
      const result = Reflect.apply(method, this, given)
      steps += cost(this, given, result)
      if (steps > most) throw new Error(`more than ${most} steps`)
      return result
    }
    Object.defineProperty(prototype, name, { ...own, value: counting })
    return () => void Object.defineProperty(prototype, name, own)
  }
}

const uncounted = new Set<string | symbol>(['constructor', 'toString', 'valueOf', ...Object.keys(costs)])
const wholeTextMethods = Reflect.ownKeys(String.prototype).filter(
  (name) =>
    !uncounted.has(name) &&
    typeof Object.getOwnPropertyDescriptor(String.prototype, name)?.value === 'function',
)
